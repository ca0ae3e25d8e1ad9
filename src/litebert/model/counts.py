"""Exact parameter counts: a closed form, checked against the model built without memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from litebert.model.config import PRESETS, ModelConfig, Sharing
from litebert.model.sharing import plan_of

CPU_PIECE_ELEMENTS = 2**22
"""Logits the masked-word loss holds at a time: 16 MB stay in the cache and the pages are touched
once, which makes the loss 1.7 times as fast as with all logits at once."""
GPU_PIECE_ELEMENTS = 2**27
"""A GPU wants larger products."""


@dataclass(frozen=True)
class ParameterCounts:
    """Numbers of parameters, by part.

    Example:
        >>> count_parameters(ModelConfig()).encoder
        11683584
    """

    embeddings: int
    """word, position and segment tables with their norm"""
    projection: int
    """E -> H"""
    blocks: int
    """all attention, feed-forward and norm sets"""
    pooler: int
    """the map of the first token"""
    heads: int
    """masked-word and sentence head (the decoder is the word table)"""

    @property
    def encoder(self) -> int:
        """Everything but the heads: what the paper counts."""
        return self.embeddings + self.projection + self.blocks + self.pooler

    @property
    def total(self) -> int:
        """The encoder with the pretraining heads."""
        return self.encoder + self.heads


def count_parameters(config: ModelConfig) -> ParameterCounts:
    """The counts of a pretraining model in closed form; needs no torch."""
    plan = plan_of(config)
    embedding, hidden, ffn = config.embedding_size, config.hidden_size, config.ffn
    attention = 4 * (hidden * hidden + hidden)
    feed_forward = (hidden * ffn + ffn) + (ffn * hidden + hidden)
    norms = 2 * 2 * hidden
    positions = config.max_positions + config.type_vocab_size
    return ParameterCounts(
        embeddings=config.vocab_size * embedding
        + positions * config.position_size
        + 2 * config.position_size,
        projection=(embedding * hidden + hidden) if config.has_projection else 0,
        blocks=plan.num_attention_sets * attention
        + plan.num_feed_forward_sets * feed_forward
        + plan.num_norm_sets * norms,
        pooler=hidden * hidden + hidden,
        heads=(hidden * embedding + embedding)
        + 2 * embedding
        + config.vocab_size
        + (2 * hidden + 2),
    )


def count_built_parameters(config: ModelConfig) -> ParameterCounts:
    """The counts of the model itself, built on the meta device: shapes without memory."""
    import torch

    from litebert.model.heads import PretrainingModel

    with torch.device("meta"):
        sizes = {name: p.numel() for name, p in PretrainingModel(config).named_parameters()}

    def total(*prefixes: str) -> int:
        return sum(size for name, size in sizes.items() if name.startswith(prefixes))

    projection = total("encoder.embeddings.projection.")
    return ParameterCounts(
        embeddings=total("encoder.embeddings.") - projection,
        projection=projection,
        blocks=total("encoder.attention.", "encoder.feed_forward.", "encoder.norms."),
        pooler=total("encoder.pooler."),
        heads=total("mlm.", "sentence."),
    )


@dataclass(frozen=True)
class ParameterReport:
    """One line of `litebert params`.

    Example:
        >>> report("albert-base", PRESETS["albert-base"]).total_parameters
        11813810
    """

    name: str
    sharing: Sharing
    num_groups: int
    num_layers: int
    hidden_size: int
    embedding_size: int
    num_heads: int
    intermediate_size: int
    embedding_parameters: int
    projection_parameters: int
    block_parameters: int
    pooler_parameters: int
    encoder_parameters: int
    head_parameters: int
    total_parameters: int
    paper: str | None
    """what the paper says, if it has this model"""


def report(name: str, config: ModelConfig, paper: str | None = None) -> ParameterReport:
    """Count the built model, make sure that the closed form agrees, and say what was counted."""
    counts = count_built_parameters(config)
    if counts != count_parameters(config):
        raise AssertionError(f"{name}: built {counts}, closed form {count_parameters(config)}")
    return ParameterReport(
        name=name,
        sharing=config.sharing,
        num_groups=config.num_groups,
        num_layers=config.num_layers,
        hidden_size=config.hidden_size,
        embedding_size=config.embedding_size,
        num_heads=config.heads,
        intermediate_size=config.ffn,
        embedding_parameters=counts.embeddings,
        projection_parameters=counts.projection,
        block_parameters=counts.blocks,
        pooler_parameters=counts.pooler,
        encoder_parameters=counts.encoder,
        head_parameters=counts.heads,
        total_parameters=counts.total,
        paper=paper,
    )


def paper_tables() -> Mapping[str, tuple[ParameterReport, ...]]:
    """The parameter columns of the paper's Tables 1, 3 and 4, then our own small models.

    Table 1 is the presets; Tables 3 and 4 vary embedding size and sharing at the shape of base.
    The groups are those the text speaks of without giving sizes.
    """
    base = PRESETS["albert-base"]

    def ablation(sharing: Sharing, embedding: int, paper: str | None) -> ParameterReport:
        config = replace(base, sharing=sharing, embedding_size=embedding)
        return report(f"base-E{embedding}-{sharing}", config, paper)

    table_1 = {
        "bert-base": "108M",
        "bert-large": "334M",
        "bert-xlarge": "1270M",
        "albert-base": "12M",
        "albert-large": "18M",
        "albert-xlarge": "60M",
        "albert-xxlarge": "235M",
    }
    table_3: dict[tuple[Sharing, int], str] = {
        ("none", 64): "87M",
        ("none", 128): "89M",
        ("none", 256): "93M",
        ("none", 768): "108M",
        ("all", 64): "10M",
        ("all", 128): "12M",
        ("all", 256): "16M",
        ("all", 768): "31M",
    }
    table_4: dict[tuple[Sharing, int], str] = {
        ("all", 768): "31M",
        ("attention", 768): "83M",
        ("ffn", 768): "57M",
        ("none", 768): "108M",
        ("all", 128): "12M",
        ("attention", 128): "64M",
        ("ffn", 128): "38M",
        ("none", 128): "89M",
    }
    return {
        "Table 1: sizes": tuple(report(n, PRESETS[n], says) for n, says in table_1.items()),
        "Table 3: embedding size": tuple(ablation(s, e, says) for (s, e), says in table_3.items()),
        "Table 4: sharing": tuple(ablation(s, e, says) for (s, e), says in table_4.items()),
        "Groups of layers": tuple(
            report(f"base-G{groups}", replace(base, sharing="groups", num_groups=groups))
            for groups in (2, 3, 4, 6, 12)
        ),
        "Small models": tuple(
            report(name, PRESETS[name]) for name in ("albert-small", "albert-mini", "albert-tiny")
        ),
    }
