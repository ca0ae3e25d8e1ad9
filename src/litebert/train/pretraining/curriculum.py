"""Progress of a run as one number, and the settings (depth, length, batch, masks) it leads to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from litebert.common.errors import ConfigError
from litebert.data.batches.example import Task
from litebert.model.config import ModelConfig
from litebert.train.pretraining.config import PretrainConfig, Trainable

V = TypeVar("V")


@dataclass(frozen=True)
class Stage:
    """The settings that hold at some moment of a run."""

    layers: int
    length: int
    """longest example in tokens"""
    batch_size: int
    """examples of full length per step"""
    micro_batch_size: int
    """examples of full length per micro-batch"""
    mask_rate: float
    """share of the tokens that is predicted"""
    lr_factor: float = 1.0
    """factor on the learning rate besides the schedule"""
    bag_factor: float = 1.0
    """factor on the weight of the bag of words"""
    sentence_factor: float = 1.0
    """factor on the weight of the sentence loss"""
    task: Task | None = None
    """the sentence task; None: that of the configuration"""
    trainable: Trainable = "all"
    """which weights a step changes"""

    @property
    def num_micro(self) -> int:
        """Micro-batches per step, over all processes."""
        return -(-self.batch_size // self.micro_batch_size)


def progress_share(config: PretrainConfig, step: int, tokens: int, elapsed_s: float) -> float:
    """The share of the run that is done: the largest of those by steps, tokens and time."""
    limits = ((step, config.steps), (tokens, config.tokens), (elapsed_s, config.budget_s))
    return max(done / limit for done, limit in limits if limit is not None)


def stage_at(config: PretrainConfig, model: ModelConfig, share: float) -> Stage:
    """The settings at a share of the run.

    The token budget of a micro-batch, ``micro_batch_size * length`` of the config, holds at every
    length: short examples come in larger micro-batches.
    """
    table = config.curriculum
    length = round(value_at(table.length, share, config.examples.length))
    batch_size = round(value_at(table.batch_size, share, config.batch_size))
    return Stage(
        layers=round(value_at(table.layers, share, model.num_layers)),
        length=length,
        batch_size=batch_size,
        micro_batch_size=_micro_batch_size(config, batch_size, length),
        mask_rate=value_at(table.mask_rate, share, config.examples.mask.rate),
        lr_factor=value_at(table.lr_factor, share, 1.0),
        bag_factor=value_at(table.bag_factor, share, 1.0),
        sentence_factor=value_at(table.sentence_factor, share, 1.0),
        task=value_at(table.task, share, None),
        trainable=value_at(table.trainable, share, "all"),
    )


def pairs_stage(config: PretrainConfig, stage: Stage) -> Stage:
    """The same moment for the batches of short pairs that join some steps."""
    length, size = config.objective.pairs_length, config.objective.pairs_batch_size
    micro = _micro_batch_size(config, size, length)
    return replace(stage, length=length, batch_size=size, micro_batch_size=micro)


def _micro_batch_size(config: PretrainConfig, batch_size: int, length: int) -> int:
    budget_tokens = config.examples.micro_batch_size * config.examples.length
    num_micro = math.ceil(batch_size / max(1, budget_tokens // length))
    return math.ceil(batch_size / num_micro)


def value_at(table: Sequence[tuple[float, V]], share: float, default: V) -> V:
    """The value of the last row whose share has come; the default for an empty table.

    >>> value_at(((0.0, 2), (0.5, 4)), 0.6, 12)
    4
    """
    value = default
    for start, entry in table:
        if share >= start:
            value = entry
    return value


def longest_example(config: PretrainConfig) -> int:
    """Tokens of the longest example of a run, in any of its stages."""
    lengths = [int(value) for _, value in config.curriculum.length] + [config.examples.length]
    return max([*lengths, config.objective.pairs_length * bool(config.objective.pairs_every_steps)])


def check(config: PretrainConfig, model: ModelConfig) -> None:
    """Refuse settings that contradict each other or the model."""
    table = config.curriculum
    if table.layers and table.layers[-1][1] != model.num_layers:
        raise ConfigError(
            f"curriculum.layers ends with {table.layers[-1][1]:g} layers but the model has "
            f"{model.num_layers}: make the last row {model.num_layers}, or set model.num_layers."
        )
    longest = longest_example(config)
    if config.examples.positions > model.max_positions:
        raise ConfigError(
            f"examples.positions is {config.examples.positions} but the model has "
            f"{model.max_positions} positions: give at most these, or raise model.max_positions."
        )
    if longest > model.max_positions:
        raise ConfigError(
            f"examples of {longest} tokens exceed the {model.max_positions} positions of the "
            "model: shorten them (examples.length, curriculum.length), or raise "
            "model.max_positions."
        )
    for name, least in (("layers", 1), ("length", 8), ("batch_size", 1)):
        for _, value in getattr(table, name):
            if value < least or value != int(value):
                raise ConfigError(
                    f"curriculum.{name} has {value}: use whole numbers from {least} on."
                )
    for _, rate in table.mask_rate:
        if not 0.0 < rate < 1.0:
            raise ConfigError(f"curriculum.mask_rate has {rate}: a rate lies between 0 and 1.")
    for name in ("bag_factor", "sentence_factor"):
        for _, value in getattr(table, name):
            if value < 0.0:
                raise ConfigError(f"curriculum.{name} has {value}: use 0 or more.")
    tasks = {config.examples.task, *(task for _, task in table.task)}
    if "none" in tasks and (table.task or config.objective.pairs_every_steps):
        raise ConfigError(
            "the sentence task is none at some time, so there is nothing to change to and from and "
            "there are no pairs: leave out curriculum.task and objective.pairs_every_steps, or "
            "choose sop, nsp or both and give it no weight (curriculum.sentence_factor)."
        )
