"""Learning-rate schedules as pure functions of progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from litebert.common.config import check_range


@dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves between the first step and the last."""

    name: Literal["official", "linear", "trapezoid", "constant"] = "official"
    """after warm-up, official: polynomial decay as if from step 0; linear: straight down; \
trapezoid: constant, then down; constant"""
    warmup_share: float = 0.025
    """share of the run spent warming up"""
    warmup_steps: int | None = None
    """warm-up in steps, in place of warmup_share (only with --steps)"""
    warmup_floor: int = 0
    """steps that warming up takes at least: a share of the time is few steps on a slow machine"""
    decay_share: float = 0.3
    """share of the run spent decaying at the end (trapezoid)"""
    power: float = 1.0
    """exponent of the decay (official)"""

    def __post_init__(self) -> None:
        check_range(self, "0 to 1", "warmup_share", "decay_share", table="schedule")
        check_range(self, "0 or more", "warmup_steps", "warmup_floor", table="schedule")


def factor(config: ScheduleConfig, progress: float, steps: int | None = None, step: int | None = None) -> float:
    """The factor on the peak learning rate at ``progress`` (steps, tokens or time, as a share).

    A warm-up in steps needs the run's length in ``steps``, the warm-up's floor the steps done before this ``step``.
    """
    warmup = config.warmup_share
    if config.warmup_steps is not None:
        assert steps is not None, "a warm-up in steps is refused without a length in steps"
        warmup = config.warmup_steps / steps
    rising = progress / warmup if progress < warmup else 1.0
    left = 1.0 - min(progress, 1.0)
    if config.name == "official":
        # The decay counts from 0, so there is a jump after warm-up (spec 4.3).
        value = rising if progress < warmup else float(left**config.power)
    else:
        decay = {"linear": 1.0 - warmup, "trapezoid": config.decay_share, "constant": 0.0}[config.name]
        value = min(rising, left / decay if decay > 0.0 else 1.0)
    if config.warmup_floor and step is not None:
        value = min(value, (step + 1) / config.warmup_floor)
    return value
