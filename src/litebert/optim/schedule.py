"""Learning-rate schedules as pure functions of progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from litebert.common.config import check_range
from litebert.common.errors import ConfigError

ScheduleName = Literal["official", "linear", "trapezoid", "constant"]


@dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves between the first step and the last."""

    name: ScheduleName = "official"
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


def official(progress: float, warmup: float, power: float = 1.0) -> float:
    """The official schedule (spec 4.3): the decay counts from 0, so there is a jump after warm-up.

    Like those below a factor on the peak learning rate, by the share of the run that was done
    before this step (at and after 1 the rate is 0) and the share that warms up.
    """
    if progress < warmup:
        return progress / warmup
    return float((1.0 - min(progress, 1.0)) ** power)


def linear(progress: float, warmup: float) -> float:
    """Warm-up, then straight from the peak to zero at the end: no jump."""
    if progress < warmup:
        return progress / warmup
    return (1.0 - min(progress, 1.0)) / (1.0 - warmup) if warmup < 1.0 else 0.0


def trapezoid(progress: float, warmup: float, decay: float) -> float:
    """Warm-up, constant, and straight down to zero over the last ``decay`` of the run, if any."""
    rising = progress / warmup if progress < warmup else 1.0
    falling = (1.0 - min(progress, 1.0)) / decay if decay > 0.0 else 1.0
    return min(rising, falling, 1.0)


def factor(
    config: ScheduleConfig, progress: float, steps: int | None = None, step: int | None = None
) -> float:
    """The factor on the peak learning rate at ``progress`` (steps, tokens or time, as a share).

    A warm-up in steps needs the run's length in ``steps``, the warm-up's floor the steps done
    before this ``step``.
    """
    warmup = config.warmup_share
    if config.warmup_steps is not None:
        if steps is None:
            raise ConfigError(
                f"schedule.warmup_steps is {config.warmup_steps} but the run's length is not given "
                "in steps: set --steps, or use schedule.warmup_share."
            )
        warmup = config.warmup_steps / steps
    if config.name == "official":
        value = official(progress, warmup, config.power)
    elif config.name == "linear":
        value = linear(progress, warmup)
    else:
        decay = config.decay_share if config.name == "trapezoid" else 0.0
        value = trapezoid(progress, warmup, decay)
    if config.warmup_floor and step is not None:
        value = min(value, (step + 1) / config.warmup_floor)
    return value
