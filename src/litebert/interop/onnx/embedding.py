"""Files beside an exported model that let sentence-transformers load it: modules and pooling."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from litebert.common.files import write_json
from litebert.model.config import ModelConfig
from litebert.model.head_table import Head

Pooling = Literal["mean", "cls"]

EMBEDDING_HEADS: tuple[Head, ...] = ("encoder", "pretraining", "masked_lm")
"""Models whose hidden states are what one takes from them; the others answer a task."""

_POOLING_FOLDER = "1_Pooling"
_TYPES = (
    ("", "sentence_transformers.models.Transformer"),
    (_POOLING_FOLDER, "sentence_transformers.models.Pooling"),
)


def write_embedding_files(folder: Path, config: ModelConfig, pooling: Pooling) -> None:
    """Write ``modules.json``, the pooling's and the transformer's settings.

    The keys are those that sentence-transformers has read since version 2; the vectors are then
    those of :meth:`litebert.predict.predictor.Predictor.embed` with the same pooling.
    """
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": kind}
        for number, (path, kind) in enumerate(_TYPES)
    ]
    (folder / _POOLING_FOLDER).mkdir()
    write_json(folder / "modules.json", modules)
    write_json(
        folder / _POOLING_FOLDER / "config.json",
        {
            "word_embedding_dimension": config.hidden_size,
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
    write_json(
        folder / "sentence_bert_config.json",
        # The tokenizer itself knows about upper and lower case.
        {"max_seq_length": config.max_positions, "do_lower_case": False},
    )
