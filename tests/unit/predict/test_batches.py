"""Batches of nearly equal length: every input once, budgets kept, the oldest first."""

from __future__ import annotations

import random
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from litebert.predict.batches import CALL_TOKENS, MAX_PADDING, fill, first_batch, pack

lengths = st.lists(st.integers(1, 512), min_size=1, max_size=60)


@given(lengths, st.integers(64, 4096))
def test_packing_keeps_every_input_and_the_budget(lengths: list[int], max_tokens: int) -> None:
    batches = pack(lengths, max_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * longest <= max_tokens


@given(lengths, st.integers(64, 4096))
def test_filling_keeps_every_input_and_both_budgets(lengths: list[int], max_tokens: int) -> None:
    batches = fill(lengths, max_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or sum(lengths[i] for i in batch) <= max_tokens
        assert len(batch) == 1 or len(batch) * longest <= MAX_PADDING * max_tokens


@given(lengths, st.integers(64, 4096))
def test_the_oldest_input_always_goes_next(lengths: list[int], max_tokens: int) -> None:
    batch = first_batch(lengths, max_tokens)
    assert batch[0] == 0
    assert batch == sorted(set(batch))
    longest = max(lengths[i] for i in batch)
    assert len(batch) == 1 or len(batch) * longest <= max_tokens


@given(lengths, st.integers(64, 4096))
def test_a_queue_fills_the_budget_where_padding_is_not_computed(lengths: list[int], max_tokens: int) -> None:
    batch = first_batch(lengths, max_tokens, pads=False)
    assert batch[0] == 0
    assert batch == sorted(set(batch))
    num_tokens, longest = sum(lengths[i] for i in batch), max(lengths[i] for i in batch)
    assert len(batch) == 1 or num_tokens <= max_tokens
    assert len(batch) == 1 or len(batch) * longest <= MAX_PADDING * max_tokens
    if sum(lengths) <= max_tokens and len(lengths) * max(lengths) <= MAX_PADDING * max_tokens:
        assert len(batch) == len(lengths)


@given(lengths, st.integers(64, 4096))
def test_computed_padding_keeps_the_budget_of_a_step(lengths: list[int], max_tokens: int) -> None:
    batches = fill(lengths, max_tokens, max_padding=1)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= max_tokens


@given(st.integers(1, 512), st.integers(2, 20))
def test_equal_lengths_share_a_batch(length: int, count: int) -> None:
    assert pack([length] * count, length * count) == [list(range(count))]
    assert fill([length] * count, length * count) == [list(range(count))]
    assert first_batch([length] * count, length * count) == list(range(count))


def cost(lengths: list[int], batches: list[list[int]]) -> int:
    return sum(len(batch) * max(lengths[i] for i in batch) + CALL_TOKENS for batch in batches)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=7), st.integers(30, 200))
def test_no_other_cuts_cost_less(lengths: list[int], max_tokens: int) -> None:
    ordered = sorted(range(len(lengths)), key=lengths.__getitem__)
    cheapest = min(
        cost(lengths, batches)
        for cuts in product([False, True], repeat=len(lengths) - 1)
        for batches in [cut_at(ordered, cuts)]
        if all(len(b) == 1 or len(b) * lengths[b[-1]] <= max_tokens for b in batches)
    )
    assert cost(lengths, pack(lengths, max_tokens)) == cheapest


def cut_at(ordered: list[int], cuts: tuple[bool, ...]) -> list[list[int]]:
    batches = [[ordered[0]]]
    for index, is_cut in zip(ordered[1:], cuts, strict=True):
        if is_cut:
            batches.append([])
        batches[-1].append(index)
    return batches


def test_many_inputs_are_hardly_padded() -> None:
    generator = random.Random(0)
    lengths = [generator.randint(6, 60) for _ in range(872)]
    padded = sum(len(b) * max(lengths[i] for i in b) for b in pack(lengths, 2048))
    assert padded <= 1.02 * sum(lengths)


def test_nothing_is_packed_into_nothing() -> None:
    assert pack([], 100) == []
    assert fill([], 100) == []
