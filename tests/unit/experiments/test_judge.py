"""The judge: known answers on made-up figures, and how often equal conditions fool it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from litebert.common.errors import ConfigError
from litebert.experiments.config import Contrast
from litebert.experiments.evidence import Interval, Values, judge

WORSE = Contrast("a is worse", "loss", {"a": 1.0, "b": -1.0}, "above", margin=0.05)
EQUAL = Contrast("a is b", "loss", {"a": 1, "b": -1}, "equal", gap={"all": 1, "none": -1})


def values(**conditions: list[float]) -> Values:
    return {name: dict(enumerate(found)) for name, found in conditions.items()}


def test_intervals_are_those_of_students_t() -> None:
    found = Interval.of([0.1, 0.2, 0.3, 0.4, 0.5])
    # By hand: mean 0.3, deviation 0.1581, t(0.975, 4) = 2.776.
    assert (found.low, found.high) == pytest.approx((0.3 - 0.19632, 0.3 + 0.19632), abs=1e-4)


@pytest.mark.parametrize(
    ("difference", "answer", "reason"),
    [
        ([0.20, 0.22, 0.18], "holds", ""),
        ([-0.20, -0.22, -0.18], "does not hold", ""),
        ([0.30, -0.20, 0.10], "cannot tell", "it would take about"),
        ([0.020, 0.021, 0.019], "cannot tell", "less than the margin of 0.05"),
        ([1e-9, -1e-1, 1e-1], "cannot tell", "more than 1,000 seeds"),
        ([0.5], "cannot tell", "needs two seeds"),
    ],
)
def test_known_answers(difference: list[float], answer: str, reason: str) -> None:
    base = [3.0, 4.0, 5.0][: len(difference)]  # seeds differ by far more than conditions
    found = values(a=[b + d for b, d in zip(base, difference, strict=True)], b=base)
    verdict = judge(WORSE, found)
    assert (verdict.answer, reason in verdict.reason) == (answer, True)
    # The same finding the other way round.
    turned = replace(WORSE, weights={"a": -1.0, "b": 1.0}, expect="below")
    assert judge(turned, found).answer == answer


@pytest.mark.parametrize(
    ("difference", "answer"),
    [
        ([0.01, 0.02, 0.00], "holds"),
        ([0.70, 0.72, 0.68], "does not hold"),
        ([-0.70, -0.72, -0.68], "does not hold"),
        ([0.60, -0.30, 0.20], "cannot tell"),
    ],
)
def test_equality_is_within_a_third_of_the_gap(difference: list[float], answer: str) -> None:
    shared = {"none": [2.0, 2.0, 2.1], "all": [2.9, 3.0, 3.0]}
    verdict = judge(EQUAL, values(a=difference, b=[0.0] * 3, **shared))
    assert verdict.answer == answer
    assert "a third of the gap" in verdict.reason
    no_gap = {"none": [2.0, 3.0, 2.1], "all": [2.9, 2.0, 3.0]}
    verdict = judge(EQUAL, values(a=difference, b=[0.0] * 3, **no_gap))
    assert (verdict.answer, "not established" in verdict.reason) == ("cannot tell", True)


def test_only_seeds_that_all_conditions_have_are_compared() -> None:
    found = {"a": {0: 1.0, 1: 2.0, 7: 99.0}, "b": {0: 0.8, 1: 1.8, 5: -99.0}}
    interval = judge(WORSE, found).interval
    assert interval is not None
    assert interval.count == 2
    assert interval.mean == pytest.approx(0.2)
    assert judge(WORSE, {"a": found["a"]}).interval is None


def test_equal_conditions_rarely_fool_it() -> None:
    """Of equal conditions an interval lies on the paper's side in 2.5 %, on the other in 2.5 %."""
    rng, trials = np.random.default_rng(0), 4000
    answers: Counter[str] = Counter()
    contrast = replace(WORSE, margin=0.0)
    for _ in range(trials):
        seeds = rng.normal(5.0, 1.0, 5)
        a, b = (seeds + rng.normal(0.0, 0.1, 5) for _ in range(2))
        answers[judge(contrast, values(a=a.tolist(), b=b.tolist())).answer] += 1
    for answer in ("holds", "does not hold"):
        assert answers[answer] / trials == pytest.approx(0.025, abs=0.008)


def test_a_contrast_says_what_equality_means() -> None:
    with pytest.raises(ConfigError, match="go together"):
        Contrast("x", "loss", {"a": 1.0}, "equal")
