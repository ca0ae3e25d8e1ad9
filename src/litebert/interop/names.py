"""Tensor names of a model folder: our parameters <-> those of transformers' ALBERT.

A folder has ``model_type: "albert"`` and transformers' tensor names wherever transformers can run
the model. Where it cannot (attention-only or FFN-only sharing, projected words, the paper's
SQuAD 2.0 head, and the few depths whose groups it rounds differently) the folder says
``model_type: "litebert"`` and keeps our own names, so that a foreign loader refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from litebert.model.config import ModelConfig
from litebert.model.sharing import plan_of

Head = Literal[
    "encoder",
    "pretraining",
    "masked_lm",
    "classification",
    "regression",
    "multiple_choice",
    "token_classification",
    "span",
    "squad2",
]

PROJECTION = "encoder.embeddings.projection"
FOREIGN_PROJECTION = "albert.encoder.embedding_hidden_mapping_in"
"""The E -> H projection; transformers has it even where E = H."""

POOLER = ("encoder.pooler.weight", "encoder.pooler.bias")


@dataclass(frozen=True)
class HeadNames:
    """What a head is called in a folder.

    Attributes:
        architecture: the class name in ``architectures`` without its ``Albert`` or ``Litebert``.
        uses_pooler: whether the head reads the pooled vector.
        modules: our module name -> transformers' name, for modules of a weight and a bias.
        tensors: our parameter name -> transformers' name, for single parameters.
        foreign: whether transformers has this head.
    """

    architecture: str
    uses_pooler: bool
    modules: Mapping[str, str]
    tensors: Mapping[str, str]
    foreign: bool = True


_MLM_MODULES = {"mlm.transform": "predictions.dense", "mlm.norm": "predictions.LayerNorm"}
_MLM_TENSORS = {"mlm.bias": "predictions.bias"}
_SENTENCE = {"sentence": "sop_classifier.classifier"}
_CLASSIFIER = {"classifier": "classifier"}
_SQUAD2 = ("start", "end_hidden", "end_norm", "end", "answer_hidden")

HEADS: Mapping[Head, HeadNames] = MappingProxyType(
    {
        "encoder": HeadNames("Model", True, {}, {}),
        "pretraining": HeadNames("ForPreTraining", True, _MLM_MODULES | _SENTENCE, _MLM_TENSORS),
        "masked_lm": HeadNames("ForMaskedLM", False, _MLM_MODULES, _MLM_TENSORS),
        "classification": HeadNames("ForSequenceClassification", True, _CLASSIFIER, {}),
        "regression": HeadNames("ForSequenceClassification", True, _CLASSIFIER, {}),
        "multiple_choice": HeadNames("ForMultipleChoice", True, _CLASSIFIER, {}),
        "token_classification": HeadNames("ForTokenClassification", False, _CLASSIFIER, {}),
        "span": HeadNames("ForQuestionAnswering", False, {"span": "qa_outputs"}, {}),
        "squad2": HeadNames(
            "ForSquad2",
            False,
            {name: name for name in _SQUAD2},
            {"answer.weight": "answer.weight"},
            foreign=False,
        ),
    }
)

TIED_COPIES: Mapping[str, str] = MappingProxyType(
    {
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    }
)
"""Tensors that older folders hold twice: the copy -> the tensor it is tied to."""

BUFFERS = ("albert.embeddings.position_ids", "albert.embeddings.token_type_ids")
"""Counters that older folders hold beside the weights."""


def is_foreign(config: ModelConfig, head: Head) -> bool:
    """Whether transformers can run this model, so that its folder is an ``albert`` one."""
    plan = plan_of(config)
    num_groups = plan.num_attention_sets // config.inner_group_num
    theirs = _transformers_groups(config.num_layers, num_groups)
    return (
        HEADS[head].foreign
        and config.embedding_layout == "factorized"
        and plan.attention == plan.feed_forward == plan.norms
        and [block // config.inner_group_num for block in plan.attention[:: config.inner_group_num]]
        == theirs
    )


def _transformers_groups(num_layers: int, num_groups: int) -> list[int]:
    """The group of each layer by transformers' rule, which divides in floats."""
    return [int(layer / (num_layers / num_groups)) for layer in range(num_layers)]


def tensor_names(config: ModelConfig, head: Head, *, foreign: bool | None = None) -> dict[str, str]:
    """Map each parameter of the encoder and the head to its name in the folder.

    Ours start with ``encoder.`` for a bare encoder too, transformers' with ``albert.``. The
    projection is left out when the model has none; a tied decoder is never listed.

    Args:
        config: the model's shape.
        head: the model's head.
        foreign: transformers' names or our own; by default what :func:`is_foreign` says.

    Example:
        >>> tensor_names(ModelConfig(), "pretraining")["sentence.bias"]
        'sop_classifier.classifier.bias'
    """
    foreign = is_foreign(config, head) if foreign is None else foreign
    names = {
        "encoder.embeddings.word.weight": "albert.embeddings.word_embeddings.weight",
        "encoder.embeddings.position.weight": "albert.embeddings.position_embeddings.weight",
        "encoder.embeddings.segment.weight": "albert.embeddings.token_type_embeddings.weight",
    }
    for ours, theirs in {**_encoder_modules(config), **HEADS[head].modules}.items():
        for part in ("weight", "bias"):
            names[f"{ours}.{part}"] = f"{theirs}.{part}"
    names.update(HEADS[head].tensors)
    return names if foreign else {ours: ours for ours in names}


def _encoder_modules(config: ModelConfig) -> dict[str, str]:
    """Our modules of weight and bias in the encoder -> transformers' names."""
    modules = {"encoder.embeddings.norm": "albert.embeddings.LayerNorm"}
    if config.has_projection:
        modules[PROJECTION] = FOREIGN_PROJECTION
    plan = plan_of(config)
    for index in range(plan.num_attention_sets):
        layer = _foreign_layer(config, index)
        for ours, theirs in (("query",) * 2, ("key",) * 2, ("value",) * 2, ("output", "dense")):
            modules[f"encoder.attention.{index}.{ours}"] = f"{layer}.attention.{theirs}"
    for index in range(plan.num_feed_forward_sets):
        layer = _foreign_layer(config, index)
        modules[f"encoder.feed_forward.{index}.expand"] = f"{layer}.ffn"
        modules[f"encoder.feed_forward.{index}.contract"] = f"{layer}.ffn_output"
    for index in range(plan.num_norm_sets):
        layer = _foreign_layer(config, index)
        modules[f"encoder.norms.{index}.attention"] = f"{layer}.attention.LayerNorm"
        modules[f"encoder.norms.{index}.feed_forward"] = f"{layer}.full_layer_layer_norm"
    modules["encoder.pooler"] = "albert.pooler"
    return modules


def _foreign_layer(config: ModelConfig, index: int) -> str:
    group, inner = divmod(index, config.inner_group_num)
    return f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
