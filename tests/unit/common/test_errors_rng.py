"""Laws of the smallest building blocks."""

from __future__ import annotations

import numpy as np

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
