"""The order of examples in training: laws of epochs, groups and micro-batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from litebert.predict.batches import BatchOrder, micro_batches
from litebert.tasks.base import Feature, Row


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 5))
def test_every_epoch_sees_every_feature_once(count: int, batch_size: int, epoch: int) -> None:
    lengths = np.random.default_rng(count).integers(3, 60, count)
    order = BatchOrder(lengths, batch_size, seed=1)
    first = epoch * order.steps_per_epoch
    batches = [order.batch(first + k) for k in range(order.steps_per_epoch)]
    assert sorted(np.concatenate(batches).tolist()) == list(range(count))
    assert all(1 <= len(batch) <= batch_size for batch in batches)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 500)
    orders = [BatchOrder(lengths, 16, seed=3) for _ in range(2)]
    wanted = [orders[0].batch(step).tolist() for step in range(100)]
    assert orders[1].batch(77).tolist() == wanted[77]  # without having walked there
    assert orders[1].batch(5).tolist() == wanted[5]
    assert BatchOrder(lengths, 16, seed=4).batch(5).tolist() != wanted[5]
    assert wanted[0] != wanted[orders[0].steps_per_epoch]


def padding_share(lengths: list[int], batches: list[list[int]]) -> float:
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return 1.0 - sum(lengths) / padded


def test_grouping_leaves_little_padding() -> None:
    generator = np.random.default_rng(0)
    lengths = np.minimum(60, 3 + generator.exponential(10, 20_000).astype(int))
    order = BatchOrder(lengths, 32, seed=0)
    grouped = [order.batch(step).tolist() for step in range(order.steps_per_epoch)]
    shuffled = generator.permutation(len(lengths))
    random = [shuffled[i : i + 32].tolist() for i in range(0, len(shuffled), 32)]
    assert padding_share(lengths.tolist(), grouped) < 0.05
    assert padding_share(lengths.tolist(), random) > 0.5


def feature(length: int, num_choices: int = 1) -> Feature:
    return Feature(0, tuple(Row(np.zeros(length, np.int32), length) for _ in range(num_choices)))


def test_micro_batches_keep_the_budget_and_the_number_of_choices() -> None:
    features = [feature(10, 4), feature(30), feature(12, 4), feature(8), feature(200)]
    parts = micro_batches(features, max_tokens=100)
    assert sorted(index for part in parts for index in part) == [0, 1, 2, 3, 4]
    for part in parts:
        members = [features[index] for index in part]
        assert len({len(member.rows) for member in members}) == 1
        cost = len(part) * len(members[0].rows) * max(map(len, members))
        assert cost <= 100 or len(part) == 1
