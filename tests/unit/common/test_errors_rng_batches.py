"""Laws of the smallest building blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.common.batches import batches_by_tokens, padding_share
from litebert.common.errors import suggestion
from litebert.common.rng import derived_seed, rng


def test_suggestion_names_the_nearest_word() -> None:
    assert (
        suggestion("albert-bsae", ["albert-base", "bert-large"]) == " Did you mean 'albert-base'?"
    )
    assert suggestion("zzz", ["albert-base"]) == ""


def test_same_address_same_numbers_other_address_other_numbers() -> None:
    first = rng(1, "mask", 2, 3).integers(1 << 60, size=4)
    assert np.array_equal(first, rng(1, "mask", 2, 3).integers(1 << 60, size=4))
    others = [rng(2, "mask", 2, 3), rng(1, "pairs", 2, 3), rng(1, "mask", 3, 2), rng(1, "mask", 2)]
    for other in others:
        assert not np.array_equal(first, other.integers(1 << 60, size=4))


def test_addresses_do_not_run_together() -> None:
    assert derived_seed(1, "a", 11) != derived_seed(1, "a", 1, 1)
    assert 0 <= derived_seed(1, "a") < 2**63


def test_generator_is_uniform() -> None:
    means = [rng(0, "test", index).random(1000).mean() for index in range(20)]
    assert abs(float(np.mean(means)) - 0.5) < 0.01


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200), st.integers(1, 9))
def test_batches_hold_every_item_once_within_budget(
    lengths: list[int], max_tokens: int, max_items: int
) -> None:
    batches = batches_by_tokens(lengths, max_tokens, max_items)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) <= max_items
        assert len(batch) * longest <= max_tokens or len(batch) == 1
    assert 0.0 <= padding_share(lengths, batches) < 1.0


def test_padding_share_counts_padding() -> None:
    assert padding_share([1, 3], [[0, 1]]) == pytest.approx(2 / 6)
