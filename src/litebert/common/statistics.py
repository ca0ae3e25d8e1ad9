"""How sure a measured share is."""

from __future__ import annotations

import math

_Z = 1.959964
"""Standard deviations of a normal distribution that hold 95 %."""


def interval(share: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share found in ``count`` trials.

    >>> low, high = interval(0.5, 4096)
    >>> round(high - low, 3)
    0.031
    """
    if count <= 0:
        return 0.0, 1.0
    centre = (share + _Z * _Z / (2 * count)) / (1 + _Z * _Z / count)
    spread = math.sqrt(share * (1 - share) / count + _Z * _Z / (4 * count * count))
    half = _Z * spread / (1 + _Z * _Z / count)
    return centre - half, centre + half
