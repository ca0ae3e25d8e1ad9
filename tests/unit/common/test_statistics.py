"""Intervals of shares."""

from __future__ import annotations

import pytest

from litebert.common.statistics import wilson_interval


@pytest.mark.parametrize(("share", "count"), [(0.5, 4096), (0.0, 10), (1.0, 10), (0.865, 100)])
def test_intervals_hold_the_share_and_shrink(share: float, count: int) -> None:
    low, high = wilson_interval(share, count)
    assert 0.0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1.0 + 1e-12
    wide_low, wide_high = wilson_interval(share, count // 5)
    assert wide_high - wide_low > high - low
