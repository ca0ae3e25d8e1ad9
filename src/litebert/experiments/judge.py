"""The judge: whether seeds in pairs show what the paper found, and how many would be needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from litebert.experiments.config import Contrast, Weights

Answer = Literal["holds", "does not hold", "cannot tell"]
Values = Mapping[str, Mapping[int, float]]
"""A measure: condition -> seed -> value."""

MOST_SEEDS = 1000


@dataclass(frozen=True)
class Interval:
    """Mean of some differences and the 95 % interval of Student's t around it."""

    mean: float
    low: float
    high: float
    deviation: float
    """standard deviation of one difference"""
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Of one value the interval is everything."""
        mean, count = fmean(values), len(values)
        if count < 2:
            return cls(mean, -math.inf, math.inf, math.nan, count)
        deviation = stdev(values)
        half = half_width(deviation, count)
        return cls(mean, mean - half, mean + half, deviation, count)


@dataclass(frozen=True)
class Verdict:
    """What the runs say of a contrast."""

    answer: Answer
    interval: Interval | None
    """None if nothing was measured"""
    reason: str

    def describe(self) -> str:
        """Figures and reason as one line."""
        found = self.interval
        if found is None:
            return self.reason
        if found.count < 2:
            return f"{found.mean:+.4g} of one seed; {self.reason}"
        said = f"{found.mean:+.4g} ({found.low:+.4g} to {found.high:+.4g}, {found.count} seeds)"
        return f"{said}; {self.reason}" if self.reason else said


def half_width(deviation: float, count: int) -> float:
    """Half of the 95 % interval of the mean of ``count`` values."""
    from scipy.stats import t

    return float(t.ppf(0.975, count - 1)) * deviation / math.sqrt(count)


def judge(contrast: Contrast, values: Values) -> Verdict:
    """The verdict on a contrast: seeds that all its conditions have are compared in pairs.

    Holds: the whole interval on the paper's side, and the mean beyond the margin. Does not hold:
    the whole interval on the other side. For "equal" the interval must lie within (outside) a
    third of the gap. All else cannot be told, and how many seeds it would take is said.
    """
    differences = _sums(contrast.weights, values)
    if not differences:
        return Verdict("cannot tell", None, f"{contrast.measure} was not measured")
    found = Interval.of([value - contrast.constant for value in differences])
    if found.count < 2:
        return Verdict("cannot tell", found, "an interval needs two seeds")
    if contrast.expect == "equal":
        return _judge_equality(contrast, found, values)
    sign = 1.0 if contrast.expect == "above" else -1.0
    low, high = sorted((sign * found.low, sign * found.high))
    if low > 0:
        if sign * found.mean >= contrast.margin:
            return Verdict("holds", found, "")
        reason = f"on the paper's side, but less than the margin of {contrast.margin:g}"
        return Verdict("cannot tell", found, reason)
    if high < 0:
        return Verdict("does not hold", found, "")
    return Verdict("cannot tell", found, _seeds_needed(found, abs(found.mean)))


def _judge_equality(contrast: Contrast, found: Interval, values: Values) -> Verdict:
    gap = Interval.of(_sums(contrast.gap, values) or [math.nan])
    if not (gap.low > 0 or gap.high < 0):
        return Verdict("cannot tell", found, "the gap to compare it with is not established")
    bound = abs(gap.mean) / 3
    beside = f"a third of the gap is {bound:.4g}"
    if -bound < found.low and found.high < bound:
        return Verdict("holds", found, beside)
    if found.low > bound or found.high < -bound:
        return Verdict("does not hold", found, beside)
    needed = _seeds_needed(found, abs(bound - abs(found.mean)))
    return Verdict("cannot tell", found, f"{beside}; {needed}")


def _sums(weights: Weights, values: Values) -> list[float]:
    """The weighted sum of each seed that all conditions have."""
    seeds = set.intersection(*(set(values.get(name, ())) for name in weights))
    return [sum(weight * values[name][seed] for name, weight in weights.items()) for seed in sorted(seeds)]


def _seeds_needed(found: Interval, distance: float) -> str:
    """How many seeds would tell, if mean and spread stayed as they are."""
    count = found.count + 1
    while count <= MOST_SEEDS and half_width(found.deviation, count) >= distance:
        count += 1 + count // 50
    if count > MOST_SEEDS:
        return f"it would take more than {MOST_SEEDS:,} seeds"
    return f"it would take about {count} seeds"
