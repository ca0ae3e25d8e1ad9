"""Exact parameter counts in closed form, without torch; tests hold them to the built model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from litebert.common.errors import ConfigError
from litebert.common.limits import machine_memory
from litebert.model.config import PRESETS, ModelConfig, Sharing
from litebert.model.sharing import plan_of

CPU_SLICE_ELEMENTS = 2**22
"""Logits the masked-word loss holds at a time: 16 MB stay in the cache and the pages are touched
once, which makes the loss 1.7 times as fast as with all logits at once."""
GPU_SLICE_ELEMENTS = 2**27
"""A GPU wants larger products."""


@dataclass(frozen=True)
class ParameterCounts:
    """Numbers of parameters, by part of the model."""

    embeddings: int  # word, position and segment tables with their norm
    projection: int
    blocks: int  # all attention, feed-forward and norm sets
    pooler: int
    heads: int  # masked-word and sentence head (the decoder is the word table)

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
    sets = plan_of(config).num_sets
    embedding, hidden, ffn = config.embedding_size, config.hidden_size, config.ffn
    attention = 4 * (hidden * hidden + hidden)
    feed_forward = (hidden * ffn + ffn) + (ffn * hidden + hidden)
    norms = 2 * 2 * hidden
    # The rows of the position and segment tables, and the gains and biases of the norm.
    narrow = config.max_positions + config.type_vocab_size + 2
    words = (hidden * embedding + embedding) + 2 * embedding + config.vocab_size
    return ParameterCounts(
        embeddings=config.vocab_size * embedding + narrow * config.position_size,
        projection=(embedding * hidden + hidden) if config.has_projection else 0,
        blocks=sets.attention * attention + sets.feed_forward * feed_forward + sets.norms * norms,
        pooler=hidden * hidden + hidden,
        heads=words + (2 * hidden + 2),
    )


def check_memory(config: ModelConfig, copies: int = 1) -> None:
    """Refuse a model whose copies in float32 do not fit into this machine's memory."""
    total, memory = count_parameters(config).total, machine_memory()
    if 4 * copies * total > memory:
        raise ConfigError(
            f"a model of {total:,} parameters needs {4e-9 * copies * total:,.0f} GB here, and this "
            f"machine has {memory / 1e9:,.0f} GB: choose a smaller one"
        )


class ParameterReport(NamedTuple):
    """One line of `litebert params`."""

    name: str
    config: ModelConfig
    paper: str | None = None  # what the paper says, if it has this model

    @property
    def counts(self) -> ParameterCounts:
        """Its parameters."""
        return count_parameters(self.config)

    def record(self) -> dict[str, object]:
        """The line as JSON: what was counted, and the counts."""
        config, counts = self.config, self.counts
        return {
            "name": self.name,
            "sharing": config.sharing,
            "num_groups": config.num_groups,
            "num_layers": config.num_layers,
            "hidden_size": config.hidden_size,
            "embedding_size": config.embedding_size,
            "num_heads": config.heads,
            "intermediate_size": config.ffn,
            "embedding_parameters": counts.embeddings,
            "projection_parameters": counts.projection,
            "block_parameters": counts.blocks,
            "pooler_parameters": counts.pooler,
            "encoder_parameters": counts.encoder,
            "head_parameters": counts.heads,
            "total_parameters": counts.total,
            "paper": self.paper,
        }


def paper_tables() -> Mapping[str, tuple[ParameterReport, ...]]:
    """The parameter columns of the paper's Tables 1, 3 and 4, then our own small models.

    Table 1 is the presets; Tables 3 and 4 vary embedding size and sharing at the shape of base.
    The groups are those the text speaks of without giving sizes.
    """
    base = PRESETS["albert-base"]

    def ablation(sharing: Sharing, embedding: int, millions: int) -> ParameterReport:
        config = replace(base, sharing=sharing, embedding_size=embedding)
        return ParameterReport(f"base-E{embedding}-{sharing}", config, f"{millions}M")

    table_1 = {"bert-base": 108, "bert-large": 334, "bert-xlarge": 1270}
    table_1 |= {"albert-base": 12, "albert-large": 18, "albert-xlarge": 60, "albert-xxlarge": 235}
    embeddings = (64, 128, 256, 768)
    table_3: dict[Sharing, tuple[int, ...]] = {"none": (87, 89, 93, 108), "all": (10, 12, 16, 31)}
    sharings: tuple[Sharing, ...] = ("all", "attention", "ffn", "none")
    table_4 = {768: (31, 83, 57, 108), 128: (12, 64, 38, 89)}
    own = ("albert-small", "albert-mini", "albert-tiny")
    return {
        "Table 1: sizes": tuple(ParameterReport(name, PRESETS[name], f"{size}M") for name, size in table_1.items()),
        "Table 3: embedding size": tuple(
            ablation(sharing, embedding, millions)
            for sharing, row in table_3.items()
            for embedding, millions in zip(embeddings, row, strict=True)
        ),
        "Table 4: sharing": tuple(
            ablation(sharing, embedding, millions)
            for embedding, row in table_4.items()
            for sharing, millions in zip(sharings, row, strict=True)
        ),
        "Groups of layers": tuple(
            ParameterReport(f"base-G{groups}", replace(base, sharing="groups", num_groups=groups))
            for groups in (2, 3, 4, 6, 12)
        ),
        "Small models": tuple(ParameterReport(name, PRESETS[name]) for name in own),
    }
