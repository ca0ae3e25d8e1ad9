"""Batches of nearly equal length: every input once, budgets kept, the oldest first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from litebert.serve.packing import first_batch, longest_partner, pack

lengths = st.lists(st.integers(1, 512), min_size=1, max_size=60)


@given(lengths, st.integers(64, 4096))
def test_packing_keeps_every_input_and_the_budget(lengths: list[int], max_tokens: int) -> None:
    batches = pack(lengths, max_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        shortest = min(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * longest <= max_tokens
        assert longest <= longest_partner(shortest)


@given(lengths, st.integers(64, 4096))
def test_the_oldest_input_always_goes_next(lengths: list[int], max_tokens: int) -> None:
    batch = first_batch(lengths, max_tokens)
    assert batch[0] == 0
    assert batch == sorted(set(batch))
    longest = max(lengths[i] for i in batch)
    assert len(batch) == 1 or len(batch) * longest <= max_tokens


@given(st.integers(1, 512), st.integers(2, 20))
def test_equal_lengths_share_a_batch(length: int, count: int) -> None:
    assert pack([length] * count, length * count) == [list(range(count))]
    assert first_batch([length] * count, length * count) == list(range(count))


@given(lengths)
def test_little_is_padding(lengths: list[int]) -> None:
    padded = sum(
        len(batch) * max(lengths[i] for i in batch) for batch in pack(lengths, max_tokens=2048)
    )
    assert padded <= sum(lengths) * 9 / 8 + 2 * len(lengths)
