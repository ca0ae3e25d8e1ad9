"""How far a share that was found in a sample may be from the true one."""

from __future__ import annotations

import math

_Z = 1.959964  # standard deviations within which 95 % of a normal distribution lies


def interval_in_percent(share: float, count: float) -> str:
    """Say the interval of a share found in ``count`` trials.

    >>> interval_in_percent(0.8, 20)
    '58 to 92 %'
    """
    low, high = wilson_interval(share, count)
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def small_dev_split(documents: int, tokens: int) -> str:
    """Say how little a dev split of few documents or tokens tells; empty if it is large enough."""
    num_masked = 0.15 * tokens
    if documents >= 5 and num_masked >= 500:
        return ""
    return (
        f"the dev split is small ({documents:,} documents, {tokens:,} tokens): 30 % of the masked words right may "
        f"stand for {interval_in_percent(0.3, num_masked)}; raise --dev-fraction or give --dev-input"
    )


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share found in ``count`` trials."""
    if count == 0:
        return 0.0, 1.0
    weight = _Z * _Z / count
    centre = (share + weight / 2) / (1 + weight)
    half = _Z * math.sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)
