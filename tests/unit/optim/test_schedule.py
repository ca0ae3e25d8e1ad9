"""Schedules are continuous where they should be, and jump where the official one does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.common.errors import ConfigError
from litebert.optim.config import OptimizerConfig, default_learning_rate
from litebert.optim.schedule import ScheduleConfig, factor

shares = st.floats(0.0, 1.0)
SCHEDULES = [ScheduleConfig(name=n) for n in ("official", "linear", "trapezoid", "constant")]


@given(shares, st.floats(0.01, 0.5))
def test_the_factor_lies_between_zero_and_one(progress: float, warmup: float) -> None:
    for schedule in SCHEDULES:
        config = ScheduleConfig(name=schedule.name, warmup_share=warmup)
        assert 0.0 <= factor(config, progress) <= 1.0


def test_official_jumps_by_the_warmup_share() -> None:
    official = ScheduleConfig("official", warmup_share=0.025)
    assert factor(official, 0.025 - 1e-9) == pytest.approx(1.0)
    assert factor(official, 0.025) == pytest.approx(1.0 - 0.025)
    squared = ScheduleConfig("official", warmup_share=0.025, power=2.0)
    assert factor(squared, 0.5) == pytest.approx(0.25)


def test_linear_has_no_jump() -> None:
    linear = ScheduleConfig("linear", warmup_share=0.1)
    assert factor(linear, 0.1 - 1e-9) == pytest.approx(factor(linear, 0.1), abs=1e-6)
    assert factor(linear, 0.55) == pytest.approx(0.5)


def test_trapezoid_is_flat_in_the_middle() -> None:
    trapezoid = ScheduleConfig("trapezoid", warmup_share=0.1, decay_share=0.2)
    assert factor(trapezoid, 0.05) == pytest.approx(0.5)
    assert {factor(trapezoid, progress) for progress in (0.1, 0.5, 0.79)} == {1.0}
    assert factor(trapezoid, 0.9) == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["official", "linear", "trapezoid"])
def test_decaying_schedules_end_at_zero_and_stay_there(name: str) -> None:
    config = ScheduleConfig(name=name)  # type: ignore[arg-type]
    assert factor(config, 1.0) == 0.0
    assert factor(config, 1.7) == 0.0


def test_constant_stays() -> None:
    config = ScheduleConfig(name="constant", warmup_share=0.04)
    assert factor(config, 0.02) == 0.5
    assert factor(config, 1.0) == 1.0


def test_warmup_in_steps() -> None:
    config = ScheduleConfig(name="official", warmup_steps=3125)
    assert factor(config, 1 / 125_000, steps=125_000) == pytest.approx(1 / 3125)


def test_default_learning_rates() -> None:
    assert default_learning_rate("lamb", 4096, 768, 12) == pytest.approx(0.00176)
    assert default_learning_rate("lamb", 256, 768, 12) == pytest.approx(0.00044)
    assert default_learning_rate("adamw", 16, 256, 2) == pytest.approx(1e-3)
    assert default_learning_rate("adamw", 16, 256, 6) == pytest.approx(3.33e-4, rel=0.01)
    assert default_learning_rate("adamw", 256, 768, 12) == pytest.approx(1e-4, rel=0.05)


@pytest.mark.parametrize("changes", [{"beta1": 1.0}, {"eps": 0.0}, {"lr": -1.0}, {"clip_norm": -0.1}])
def test_impossible_constants_are_refused(changes: dict[str, float]) -> None:
    (name,) = changes
    with pytest.raises(ConfigError, match=rf"optimizer\.{name}"):
        OptimizerConfig(**changes)  # type: ignore[arg-type]


def test_a_short_share_still_warms_up_over_enough_steps() -> None:
    config = ScheduleConfig(name="trapezoid", warmup_share=0.01, warmup_floor=200)
    # A slow machine: a hundredth of the time is over after 30 steps.
    assert factor(config, 0.02, step=49) == pytest.approx(50 / 200)
    assert factor(config, 0.5, step=199) == 1.0
    # A fast one: the share is the longer of the two.
    assert factor(config, 0.005, step=400) == pytest.approx(0.5)
    with pytest.raises(ConfigError, match="warmup_floor"):
        ScheduleConfig(warmup_floor=-1)
