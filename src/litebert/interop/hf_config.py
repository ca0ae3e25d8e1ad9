"""``config.json`` of a model folder: its keys and values <-> our settings, heads and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from litebert.common.config import from_dict
from litebert.common.errors import CheckpointError, ConfigError, DataError
from litebert.common.files import read_json
from litebert.interop.names import is_foreign
from litebert.model.config import Activation, ModelConfig
from litebert.model.head_table import HEADS, Head

FOREIGN_TYPE = "albert"
OWN_TYPE = "litebert"

MULTI_LABEL = "multi_label_classification"
"""``problem_type`` of a classifier that may give several labels, or none."""

_MOST_LABELS = 1_000_000

_ACTIVATIONS: Mapping[str, Activation] = {
    # In these folders `gelu` is the erf form, because that is what transformers runs.
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# The first of the names that ours has.
_FOREIGN_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(list(_ACTIVATIONS.items()))}

_FIELDS: Mapping[str, str] = {
    "vocab_size": "vocab_size",
    "embedding_size": "embedding_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
    "inner_group_num": "inner_group_num",
    "hidden_dropout_prob": "hidden_dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "classifier_dropout_prob": "classifier_dropout",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "type_vocab_size",
    "layer_norm_eps": "layer_norm_eps",
    "initializer_range": "initializer_range",
}
"""Keys of ``config.json`` -> fields of :class:`ModelConfig` that need no thought."""

_DEFAULTS: dict[str, object] = {
    "hidden_size": 4096,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "hidden_act": "gelu_new",
}
"""What an absent key means to transformers and to the official code (ALBERT-xxlarge), where that
differs from our own default."""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise CheckpointError for a file of a model that is missing or cannot be read."""
    try:
        yield
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None


def read_settings(path: Path) -> dict[str, object]:
    """Read the JSON object of a model's settings."""
    with readable(path):
        return read_json(path)


def foreign_config(
    config: ModelConfig, head: Head, labels: Sequence[str] | None = None, *, multi_label: bool = False
) -> dict[str, object]:
    """Return the content of ``config.json`` for a model; ``labels`` are those of its outputs."""
    foreign, row = is_foreign(config, head), HEADS[head]
    values: dict[str, object] = {
        "architectures": [f"{'Albert' if foreign else 'Litebert'}{row.architecture}"],
        "model_type": FOREIGN_TYPE if foreign else OWN_TYPE,
    }
    values |= {theirs: getattr(config, ours) for theirs, ours in _FIELDS.items()}
    values |= {
        "num_attention_heads": config.heads,
        "intermediate_size": config.ffn,
        "hidden_act": _FOREIGN_ACTIVATIONS[config.activation],
        "num_hidden_groups": config.num_layers if config.sharing == "none" else config.num_groups,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    if not foreign:
        values["embedding_layout"] = config.embedding_layout
        values["pooling"] = config.pooling
    if not foreign or _sharing_of(values) != config.sharing:
        values["sharing"] = config.sharing
    if config.has_projection != (config.embedding_size != config.hidden_size):
        values["embedding_projection"] = config.has_projection
    if row.problem_type is not None:
        several = multi_label and row.has_classes
        values["problem_type"] = MULTI_LABEL if several else row.problem_type
    if head == "regression":  # otherwise CrossEncoder takes one output for a probability
        values["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    if row.labelled and labels is not None:
        values["id2label"] = {str(index): label for index, label in enumerate(labels)}
        values["label2id"] = {label: index for index, label in enumerate(labels)}
    return values


def model_config(values: Mapping[str, object], source: str) -> ModelConfig:
    """Read the shape of a model from the content of a ``config.json``, the file ``source``.

    Keys that concern only other programs are ignored, as transformers and the official code do.
    """
    model_type = values.get("model_type")
    if model_type not in (FOREIGN_TYPE, OWN_TYPE):
        raise CheckpointError(
            f"{source}: model_type is {model_type!r}; only '{FOREIGN_TYPE}' and '{OWN_TYPE}' folders are read"
        )
    own = model_type == OWN_TYPE
    if values.get("tie_word_embeddings", True) is not True:
        raise CheckpointError(f"{source}: tie_word_embeddings is off; only a tied decoder is read")
    present = _DEFAULTS | {key: value for key, value in values.items() if value is not None}
    fields = {ours: present[theirs] for theirs, ours in _FIELDS.items() if theirs in present}
    activation = present["hidden_act"]
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise CheckpointError(f"{source}: hidden_act is {activation!r}; known are {', '.join(_ACTIVATIONS)}")
    fields["activation"] = _ACTIVATIONS[activation]
    num_groups, counted = present["num_hidden_groups"], _sharing_of(present)
    same = ["all"] * (num_groups == 1) + ["none"] * (num_groups == present["num_hidden_layers"])
    stated = present.get("sharing", counted)
    # A foreign folder may call as many sets by another name, and no more.
    sharing = stated if own or stated in (*same, "groups") else counted
    fields["sharing"] = sharing
    if sharing == "groups":
        fields["num_groups"] = num_groups
    own_keys = ("embedding_layout", "pooling") if own else ()
    fields |= {key: present[key] for key in (*own_keys, "embedding_projection") if key in present}
    try:
        config = from_dict(ModelConfig, fields, source)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    if not own and not is_foreign(config, "encoder"):
        groups = f"{config.num_groups} groups over {config.num_layers} layers to other groups than l * G // L"
        raise CheckpointError(f"{source}: transformers rounds {groups}, so its folders of this shape cannot be read")
    return config


def _sharing_of(values: Mapping[str, object]) -> str:
    """What the number of groups says about sharing."""
    groups = values["num_hidden_groups"]
    return "all" if groups == 1 else "none" if groups == values["num_hidden_layers"] else "groups"


def head_of(values: Mapping[str, object], source: str) -> Head:
    """Read which head a folder holds from its ``architectures`` (and ``problem_type``)."""
    architectures = values.get("architectures") or ["AlbertModel"]
    name = architectures[0] if isinstance(architectures, list) else architectures
    found: list[Head] = [
        head for head, row in HEADS.items() if name in (f"Albert{row.architecture}", f"Litebert{row.architecture}")
    ]
    if not found:
        known = ", ".join(f"Albert{row.architecture}" for row in HEADS.values() if row.foreign)
        raise CheckpointError(f"{source}: architectures is {name!r}; known are {known}")
    if len(found) == 1:
        return found[0]
    problem = values.get("problem_type")
    if problem is None and len(labels_of(values, source)) == 1:
        problem = "regression"
    return next((head for head in found if HEADS[head].problem_type == problem), found[0])


def labels_of(values: Mapping[str, object], source: str) -> tuple[str, ...]:
    """Read the label names in the order of the outputs; two unnamed ones if none are given."""
    labels = values.get("id2label")
    if labels is None:
        count = values.get("num_labels", 2)
        if not isinstance(count, int) or not 1 <= count <= _MOST_LABELS:
            raise CheckpointError(f"{source}: num_labels is {count!r}; write a number from 1 to {_MOST_LABELS:,}")
        return default_labels(count)
    if isinstance(labels, Mapping) and labels:
        indices = [str(index) for index in range(len(labels))]
        if set(indices) == set(labels):
            return tuple(str(labels[index]) for index in indices)
    raise CheckpointError(f'{source}: id2label should map "0", "1", ... to names')


def default_labels(count: int) -> tuple[str, ...]:
    """Return transformers' names for outputs that nobody named."""
    return tuple(f"LABEL_{index}" for index in range(count))
