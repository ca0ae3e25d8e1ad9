"""Pooling files of a folder, sentence-transformers': how one vector is made of a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from litebert.common.errors import CheckpointError, DataError
from litebert.common.files import READ_ERRORS, read_bytes, read_json, write_json
from litebert.common.limits import parse_json
from litebert.model.config import Pooling

MODULES_FILE = "modules.json"
_MODULES = "sentence_transformers.models."
_MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_OTHER_MODES = ("pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens")


@dataclass(frozen=True)
class VectorRule:
    """How the states of a text's tokens become one vector."""

    pooling: Pooling = "mean"
    """the mean over all tokens, ``[CLS]`` and ``[SEP]`` among them, or the state of ``[CLS]``"""
    normalize: bool = False  # whether vectors have length 1
    dimensions: int | None = None  # numbers to keep of each, the first ones; None: all. Not in the files

    @classmethod
    def read(cls, folder: Path) -> VectorRule | None:
        """Read the files of a folder; None if it has none. What cannot be followed is refused."""
        path = folder / MODULES_FILE
        if not path.is_file():
            return None
        try:
            modules = parse_json(read_bytes(path, 1 << 20))
            if not isinstance(modules, list):
                raise TypeError("not a list of modules")
            kinds = {str(module["type"]).rpartition(".")[2]: module["path"] for module in modules}
            values = read_json(folder / str(kinds["Pooling"]) / "config.json")
        except (DataError, KeyError, TypeError, ValueError, *READ_ERRORS) as error:
            raise CheckpointError(f"{path} does not describe a pooled model: {error}") from None
        if others := kinds.keys() - {"Transformer", "Pooling", "Normalize"}:
            raise CheckpointError(
                f"{path} has the module {min(others)}; litebert runs Transformer, Pooling and Normalize"
            )
        found = values.get("pooling_mode")
        if found is None:
            found = [mode for mode, key in _MODES.items() if values.get(key)]
            found += [key for key in _OTHER_MODES if values.get(key)]
        for mode in get_args(Pooling):
            if found in (mode, [mode]):
                return cls(mode, "Normalize" in kinds)
        raise CheckpointError(f"{path}: pooling {found} is not known; litebert has mean and cls")

    def write(self, folder: Path, hidden_size: int, max_length: int) -> None:
        """Write what lets sentence-transformers load the folder and give the same vectors.

        The keys are those that it has read since version 2.
        """
        places = {"": "Transformer", "1_Pooling": "Pooling"}
        if self.normalize:
            places["2_Normalize"] = "Normalize"
        modules = [
            {"idx": number, "name": str(number), "path": path, "type": _MODULES + kind}
            for number, (path, kind) in enumerate(places.items())
        ]
        for path in places:
            (folder / path).mkdir(exist_ok=True)
        write_json(folder / MODULES_FILE, modules)
        settings: dict[str, object] = {"word_embedding_dimension": hidden_size}
        settings |= {key: mode == self.pooling for mode, key in _MODES.items()}
        settings |= dict.fromkeys(_OTHER_MODES, False)
        write_json(folder / "1_Pooling" / "config.json", settings)
        # The tokenizer itself knows about upper and lower case.
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False})

    def vector(self, states_SH: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Pool the states of one text, [S, H] -> [H]."""
        pooled = states_SH.mean(axis=0) if self.pooling == "mean" else states_SH[0]
        pooled = pooled[: self.dimensions]
        if self.normalize:
            pooled = pooled / max(float(np.linalg.norm(pooled)), 1e-12)
        return np.array(pooled, np.float32)
