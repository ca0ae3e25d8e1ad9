"""Tensor names of a model folder: our parameters <-> those of transformers' ALBERT.

A folder has ``model_type: "albert"`` and transformers' tensor names wherever transformers can run
the model. Where it cannot (attention-only or FFN-only sharing, projected words, the paper's
SQuAD 2.0 head, and the few depths whose groups it rounds differently) the folder says
``model_type: "litebert"`` and keeps our own names, so that a foreign loader refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from litebert.model.config import ModelConfig
from litebert.model.head_table import HEADS, Head
from litebert.model.sharing import plan_of

FOREIGN_PROJECTION = "albert.encoder.embedding_hidden_mapping_in"
"""The E -> H projection; transformers has it even where E = H."""

POOLER = ("encoder.pooler.weight", "encoder.pooler.bias")

TIED_COPIES: Mapping[str, str] = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}
"""Tensors that older folders hold twice: the copy -> the tensor it is tied to."""

_BLOCK: Mapping[str, Mapping[str, str]] = {
    "attention": {**{name: f"attention.{name}" for name in ("query", "key", "value")}, "output": "attention.dense"},
    "feed_forward": {"expand": "ffn", "contract": "ffn_output"},
    "norms": {"attention": "attention.LayerNorm", "feed_forward": "full_layer_layer_norm"},
}
"""Our modules of a layer, by the sets that may be shared -> transformers' names."""
_LAYER = "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}."

BUFFERS = ("albert.embeddings.position_ids", "albert.embeddings.token_type_ids")
"""Counters that older folders hold beside the weights."""


def is_foreign(config: ModelConfig, head: Head) -> bool:
    """Whether transformers can run this model, so that its folder is an ``albert`` one."""
    plan = plan_of(config)
    num_groups = plan.num_sets.attention // config.inner_group_num
    # transformers divides in floats.
    theirs = [int(k / (config.num_layers / num_groups)) for k in range(config.num_layers)]
    return (
        HEADS[head].foreign
        and config.embedding_layout == "factorized"
        and not (config.pooling == "mean" and HEADS[head].pooled and HEADS[head].linear)
        and plan.attention == plan.feed_forward == plan.norms
        and [block // config.inner_group_num for block in plan.attention[:: config.inner_group_num]] == theirs
    )


def some_of(names: Iterable[str], limit: int = 4) -> str:
    """Return the first few names, and how many more there are."""
    ordered = sorted(names)
    rest = f" and {len(ordered) - limit} more" if len(ordered) > limit else ""
    return ", ".join(ordered[:limit]) + rest


def tensor_names(config: ModelConfig, head: Head, *, foreign: bool | None = None) -> dict[str, str]:
    """Map each parameter of the encoder and the head to its name in the folder.

    Ours start with ``encoder.`` for a bare encoder too, transformers' with ``albert.``. The
    projection is left out when the model has none; a tied decoder is never listed.

    ``foreign`` asks for transformers' names or our own; by default what :func:`is_foreign` says.

    >>> tensor_names(ModelConfig(), "pretraining")["sentence.bias"]
    'sop_classifier.classifier.bias'
    """
    names = {
        "encoder.embeddings.word.weight": "albert.embeddings.word_embeddings.weight",
        "encoder.embeddings.position.weight": "albert.embeddings.position_embeddings.weight",
        "encoder.embeddings.segment.weight": "albert.embeddings.token_type_embeddings.weight",
    }
    modules = {"encoder.embeddings.norm": "albert.embeddings.LayerNorm"}
    if config.has_projection:
        modules["encoder.embeddings.projection"] = FOREIGN_PROJECTION
    modules |= block_modules(config, _LAYER, _BLOCK) | {"encoder.pooler": "albert.pooler"}
    for ours, theirs in (modules | dict(HEADS[head].modules)).items():
        for part in ("weight", "bias"):
            names[f"{ours}.{part}"] = f"{theirs}.{part}"
    names |= HEADS[head].tensors
    foreign = is_foreign(config, head) if foreign is None else foreign
    return names if foreign else {ours: ours for ours in names}


def tensor_shapes(config: ModelConfig, head: Head, num_labels: int | None = None) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter by our name, without building the model."""
    hidden, embedding, row = config.hidden_size, config.embedding_size, HEADS[head]
    outputs = num_labels or 2 if row.has_classes else len(row.outputs)
    maps = {  # the last part of a module's name -> (output, input)
        "projection": (hidden, embedding),
        "expand": (config.ffn, hidden),
        "contract": (hidden, config.ffn),
        "transform": (embedding, hidden),
        "sentence": (2, hidden),
        **dict.fromkeys(("start", "end", "answer"), (1, hidden)),
        **dict.fromkeys(("end_hidden", "answer_hidden"), (hidden, 2 * hidden)),
        "word": (config.vocab_size, embedding),
        "position": (config.max_positions, config.position_size),
        "segment": (config.type_vocab_size, config.position_size),
    }
    vectors = {  # both parts of these are of one size
        "mlm": config.vocab_size,
        "mlm.norm": embedding,
        "encoder.embeddings.norm": config.position_size,
        "end_norm": hidden,
    }
    shapes: dict[str, tuple[int, ...]] = {}
    for name in tensor_names(config, head, foreign=False):
        module, _, part = name.rpartition(".")
        if module in vectors or ".norms." in name:
            shapes[name] = (vectors.get(module, hidden),)
        else:
            default = (outputs if module == row.linear else hidden, hidden)
            size = maps.get(module.rpartition(".")[2], default)
            shapes[name] = size if part == "weight" else size[:1]
    return shapes


def block_modules(config: ModelConfig, scope: str, block: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Our modules of weight and bias in all blocks -> others' names.

    ``scope`` is what they call a block, with {group} and {inner}; ``block`` their modules of one,
    by the sets that may be shared.
    """
    modules = {}
    for (kind, names), count in zip(block.items(), plan_of(config).num_sets, strict=True):
        for index in range(count):
            group, inner = divmod(index, config.inner_group_num)
            layer = scope.format(group=group, inner=inner)
            for ours, theirs in names.items():
                modules[f"encoder.{kind}.{index}.{ours}"] = layer + theirs
    return modules
