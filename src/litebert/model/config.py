"""The shape of a model: a frozen configuration, its checks, the named presets and changes to them.

Legend of the symbols used in `litebert.model` (the paper's where it has one):

    V vocabulary   E embedding size   H hidden size   L layers   A heads
    S sequence     B batch            M masked positions         T = B * S tokens

A tensor carries its shape as a suffix: `hidden_BSH` is [batch, sequence, hidden].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

from litebert.common.config import check_range, from_dict, to_dict
from litebert.common.errors import ConfigError, suggestion

Sharing = Literal["all", "attention", "ffn", "none", "groups"]
EmbeddingLayout = Literal["factorized", "projected_words"]
Pooling = Literal["cls", "mean"]
ScoreLoss = Literal["cosine", "cosent"]
"""How the vectors of two texts learn the score of the pair."""
Activation = Literal["gelu_tanh", "gelu", "relu", "tanh", "linear"]

HEAD_SIZE = 64
"""The paper's rule: one attention head for every 64 hidden units."""
IGNORED_LABEL = -100
"""A label that does not count, as in torch and transformers."""
TASK_FILE = "task.json"
"""The file of a model folder that says what the model was fine-tuned for."""


@dataclass(frozen=True)
class ModelConfig:
    """Shape and regularisation of one encoder; checked when it is made.

    >>> config = ModelConfig(hidden_size=256, num_layers=6)
    >>> config.heads, config.ffn, config.has_projection
    (4, 1024, True)
    """

    vocab_size: int = 30_000
    """number of pieces in the vocabulary (V)"""
    embedding_size: int = 128
    """width of the word table (E)"""
    hidden_size: int = 768
    """width of the layers (H)"""
    num_layers: int = 12
    """layers that run, whether or not they share parameters (L)"""
    num_heads: int | None = None
    """attention heads (A); default: one for every 64 hidden units"""
    intermediate_size: int | None = None
    """inner width of the feed-forward; default: 4 x hidden size"""
    sharing: Sharing = "all"
    """what the layers share: all, attention, ffn, none, or groups of neighbouring layers"""
    num_groups: int = 1
    """number of groups when sharing is groups: layer l uses group l * G // L"""
    inner_group_num: int = 1
    """blocks with parameters of their own that each layer runs in sequence"""
    embedding_layout: EmbeddingLayout = "factorized"
    """factorized: position and segment live in E; projected_words: they live in H"""
    embedding_projection: bool | None = None
    """whether E -> H is projected; default: exactly when E differs from H"""
    activation: Activation = "gelu_tanh"
    """nonlinearity of the feed-forward and of the masked-word head"""
    hidden_dropout: float = 0.0
    """dropout after the embeddings, attention and feed-forward"""
    attention_dropout: float = 0.0
    """dropout on the attention weights"""
    classifier_dropout: float = 0.1
    """dropout before a task head"""
    pooling: Pooling = "cls"
    """what a task head reads: the state of [CLS], or the mean of all tokens (not transformers)"""
    max_positions: int = 512
    """longest sequence"""
    type_vocab_size: int = 2
    """number of segments"""
    layer_norm_eps: float = 1e-12
    """added to the variance in the layer norms"""
    initializer_range: float = 0.02
    """standard deviation of the truncated normal initialisation"""

    def __post_init__(self) -> None:
        for largest, names in _LARGEST.items():
            check_range(self, "1 or more", *names, most=largest)
        rates = ("hidden_dropout", "attention_dropout", "classifier_dropout")
        check_range(self, "0 or more and less than 1", *rates)
        check_range(self, "more than 0", "layer_norm_eps", "initializer_range")
        _check_shape(self)
        for name, kind in _CHOICES.items():
            value, choices = getattr(self, name), get_args(kind)
            if value not in choices:
                near = suggestion(str(value), choices)
                raise ConfigError(f'{name} is "{value}": use one of {", ".join(choices)}.{near}')

    @property
    def heads(self) -> int:
        """Attention heads (A), with the default resolved."""
        return self.hidden_size // HEAD_SIZE if self.num_heads is None else self.num_heads

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.heads

    @property
    def ffn(self) -> int:
        """Inner width of the feed-forward, with the default resolved."""
        return 4 * self.hidden_size if self.intermediate_size is None else self.intermediate_size

    @property
    def has_projection(self) -> bool:
        """Whether the embeddings are projected from E to H, with the default resolved."""
        if self.embedding_projection is None:
            return self.embedding_size != self.hidden_size
        return self.embedding_projection

    @property
    def position_size(self) -> int:
        """Width of the position and segment tables, and of the embeddings' norm."""
        return self.embedding_size if self.embedding_layout == "factorized" else self.hidden_size


_LARGEST: Mapping[int, Sequence[str]] = {
    100: ("inner_group_num",),
    1_000: ("num_layers", "num_groups"),
    65_536: ("embedding_size", "hidden_size", "num_heads", "type_vocab_size"),
    1_048_576: ("intermediate_size", "max_positions"),
    10_000_000: ("vocab_size",),
}
"""Larger than in any known model: more is a typing error or a damaged file."""
_CHOICES = {"sharing": Sharing, "embedding_layout": EmbeddingLayout, "activation": Activation, "pooling": Pooling}


def _check_shape(config: ModelConfig) -> None:
    """Refuse settings that do not go together."""
    hidden, embedding = config.hidden_size, config.embedding_size
    divisors = ", ".join(str(n) for n in range(1, min(hidden, 64) + 1) if hidden % n == 0)
    if config.num_heads is None and hidden % HEAD_SIZE:
        raise ConfigError(
            f"hidden_size {hidden} is not a multiple of {HEAD_SIZE}, so the number of heads is not "
            f"clear: set num_heads to one of {divisors}."
        )
    if hidden % config.heads:
        raise ConfigError(f"num_heads {config.heads} does not divide hidden_size {hidden}: use one of {divisors}.")
    if config.sharing != "groups" and config.num_groups != 1:
        raise ConfigError(
            f'num_groups is {config.num_groups} but sharing is "{config.sharing}": '
            'set sharing to "groups", or leave num_groups at 1.'
        )
    if config.num_groups > config.num_layers:
        raise ConfigError(
            f"num_groups {config.num_groups} is larger than num_layers {config.num_layers}: "
            "some groups would never run; use at most one group per layer."
        )
    if config.embedding_projection is False and embedding != hidden:
        raise ConfigError(
            f"embedding_projection is off but embedding_size {embedding} differs from "
            f"hidden_size {hidden}: make them equal, or leave the projection on."
        )


def _presets() -> dict[str, ModelConfig]:
    shapes = {"base": (768, 12), "large": (1024, 24), "xlarge": (2048, 24), "xxlarge": (4096, 12)}
    presets: dict[str, ModelConfig] = {}
    for size, (hidden, layers) in shapes.items():
        albert = ModelConfig(hidden_size=hidden, num_layers=layers)
        # The release: version 1 with dropout 0.1 except xxlarge, version 2 without any.
        rate = 0.0 if size == "xxlarge" else 0.1
        presets[f"albert-{size}"] = presets[f"albert-{size}-v2"] = albert
        presets[f"albert-{size}-v1"] = replace(albert, hidden_dropout=rate, attention_dropout=rate)
        if size != "xxlarge":
            presets[f"bert-{size}"] = replace(albert, embedding_size=hidden, sharing="none")
    # Our own family for CPUs and edge devices. Each step down costs about a third to a quarter of the arithmetic per
    # token of the one above (9.4, 3.5 and 0.8 million operations in the layers), and keeps heads of 64 so that
    # attention stays in full vectors. On two cores: small is worth a night, mini an hour, tiny a minute or two (its two
    # layers leave the unigram plateau soonest). E shrinks too, since the word table is most of a small model.
    presets["albert-small"] = ModelConfig(hidden_size=256, num_layers=6)
    presets["albert-mini"] = ModelConfig(hidden_size=192, num_layers=4, embedding_size=96)
    presets["albert-tiny"] = ModelConfig(hidden_size=128, num_layers=2, embedding_size=64)
    return presets


PRESETS: Mapping[str, ModelConfig] = _presets()
"""Named shapes; a plain `albert-*` name is version 2 (no dropout)."""


def preset(name: str, **overrides: object) -> ModelConfig:
    """The preset of that name, with some fields overridden."""
    if name not in PRESETS:
        near = suggestion(name, PRESETS) or f" Known: {', '.join(PRESETS)}."
        raise ConfigError(f'unknown model preset "{name}".{near}')
    return from_dict(ModelConfig, {**to_dict(PRESETS[name]), **overrides}, f"preset {name}")


@dataclass(frozen=True)
class ShapeOverrides:
    """Changes to a preset: the fields of :class:`ModelConfig` that decide its parameters."""

    vocab_size: int | None = None
    """pieces in the vocabulary"""
    embedding_size: int | None = None
    """width of the word table (E)"""
    hidden_size: int | None = None
    """width of the layers (H)"""
    num_layers: int | None = None
    """layers that run (L)"""
    num_heads: int | None = None
    """attention heads (A); one for every 64 hidden units unless set"""
    intermediate_size: int | None = None
    """inner width of the feed-forward; 4 x hidden size unless set"""
    sharing: Sharing | None = None
    """what the layers share"""
    num_groups: int | None = None
    """groups of neighbouring layers, with sharing groups"""
    inner_group_num: int | None = None
    """blocks with parameters of their own in each layer"""
    embedding_layout: EmbeddingLayout | None = None
    """whether position and segment live in E or (projected_words) in H"""
    embedding_projection: bool | None = None
    """whether E is projected to H; unless set, exactly when they differ"""
    max_positions: int | None = None
    """longest sequence"""
    type_vocab_size: int | None = None
    """number of segments"""

    def changes(self) -> dict[str, object]:
        """What was set, by the name of the field of :class:`ModelConfig`."""
        values = {item.name: getattr(self, item.name, None) for item in fields(ModelConfig)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class _Preset:
    """A class of its own, for the fields of the last base come first in the help."""

    preset: str = "albert-base"
    """named shape to start from; albert-tiny, -mini and -small belong to their recipes, such as --config small"""


@dataclass(frozen=True)
class ModelSection(ShapeOverrides, _Preset):
    """The model to train: a preset, and what differs from it."""

    vocab_size: int | None = None
    """pieces in the vocabulary; default: that of the shards"""
    activation: Activation | None = None
    """nonlinearity"""
    hidden_dropout: float | None = None
    """dropout after embeddings, attention and feed-forward"""
    attention_dropout: float | None = None
    """dropout on the attention weights"""
    initializer_range: float | None = None
    """standard deviation of the initial weights"""

    def resolve(self, vocab_size: int) -> ModelConfig:
        """The full shape; ``vocab_size`` is that of the shards."""
        if self.vocab_size is not None and self.vocab_size < vocab_size:
            raise ConfigError(
                f"model.vocab_size is {self.vocab_size} but the shards have {vocab_size} pieces: "
                "leave it out, or set at least that."
            )
        return preset(self.preset, **{"vocab_size": vocab_size, **self.changes()})
