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


def test_intervals_are_wilsons() -> None:
    binomtest = pytest.importorskip("scipy.stats").binomtest
    expected = binomtest(244, 400).proportion_ci(method="wilson")
    assert wilson_interval(0.61, 400) == pytest.approx((expected.low, expected.high), abs=1e-6)
