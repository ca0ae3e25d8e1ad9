"""Progress of a run as one number, and the settings (depth, length, batch, masks) it leads to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    length: int  # longest example in tokens
    batch_size: int  # examples of full length per step
    micro_batch_size: int
    mask_rate: float
    lr_factor: float = 1.0
    bag_factor: float = 1.0
    sentence_factor: float = 1.0
    task: Task | None = None  # None: that of the configuration
    trainable: Trainable = "all"

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

    The token budget of a micro-batch, ``micro_batch_size * length`` of the config, holds at every length: short
    examples come in larger micro-batches.
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
    task = config.objective.pairs_task or stage.task
    return replace(stage, length=length, batch_size=size, micro_batch_size=micro, task=task)


def _micro_batch_size(config: PretrainConfig, batch_size: int, length: int) -> int:
    budget_tokens = config.examples.micro_batch_size * config.examples.length
    num_micro = math.ceil(batch_size / max(1, budget_tokens // length))
    return math.ceil(batch_size / num_micro)


def value_at(table: Sequence[tuple[float, V]], share: float, default: V) -> V:
    """The value of the last row whose share has come; the default for an empty table."""
    return next((value for start, value in reversed(table) if share >= start), default)


def longest_example(config: PretrainConfig) -> int:
    """Tokens of the longest example of a run, in any of its stages."""
    lengths = [config.examples.length, *(int(value) for _, value in config.curriculum.length)]
    if config.objective.pairs_every_steps:
        lengths.append(config.objective.pairs_length)
    return max(lengths)


_RULES: dict[str, tuple[Callable[[float], bool], str]] = {
    "layers": (lambda n: n >= 1 and n == int(n), "use whole numbers from 1 on"),
    "length": (lambda n: n >= 8 and n == int(n), "use whole numbers from 8 on"),
    "batch_size": (lambda n: n >= 1 and n == int(n), "use whole numbers from 1 on"),
    "mask_rate": (lambda rate: 0.0 < rate < 1.0, "a rate lies between 0 and 1"),
    "bag_factor": (lambda factor: factor >= 0.0, "use 0 or more"),
    "sentence_factor": (lambda factor: factor >= 0.0, "use 0 or more"),
}


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
            f"examples of {longest} tokens exceed the {model.max_positions} positions of the model: shorten them "
            "(examples.length, curriculum.length), or raise model.max_positions."
        )
    for name, (is_right, rule) in _RULES.items():
        for _, value in getattr(table, name):
            if not is_right(value):
                raise ConfigError(f"curriculum.{name} has {value}: {rule}.")
    tasks = {config.examples.task, *(task for _, task in table.task)}
    has_plain_pairs = config.objective.pairs_every_steps and config.objective.pairs_task is None
    if "none" in tasks and (table.task or has_plain_pairs):
        raise ConfigError(
            "the sentence task is none at some time, so there is nothing to change to and from and there are no pairs: "
            "leave out curriculum.task, give the short pairs a task of their own (objective.pairs_task), or "
            "choose sop, nsp or both and give it no weight (curriculum.sentence_factor)."
        )
