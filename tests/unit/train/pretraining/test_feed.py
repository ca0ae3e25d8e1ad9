"""The feed: any number of processes sees the same global batches, any resume goes on exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from litebert.data.batches.example import Batch, ExampleConfig, Vocabulary
from litebert.data.corpus.shards import ShardSet
from litebert.model.config import IGNORED_LABEL
from litebert.text.tokenizer import Tokenizer
from litebert.train.pretraining.curriculum import Stage
from litebert.train.pretraining.feed import Feed, FeedPosition, rows_of
from litebert.train.pretraining.objective import counts_of

STAGE = Stage(layers=2, length=32, batch_size=8, micro_batch_size=2, mask_rate=0.15)


@pytest.fixture
def make_feed(tiny_shards_dir: Path, tiny_tokenizer: Tokenizer) -> Callable[..., Feed]:
    shards = ShardSet.open(tiny_shards_dir, "train")
    vocabulary = Vocabulary.of(tiny_tokenizer)

    def make(rank: int = 0, world_size: int = 1, position: FeedPosition | None = None, accumulation: int = 1) -> Feed:
        return Feed(
            [(shards, 1.0)],
            ExampleConfig(),
            3,
            vocabulary,
            rank=rank,
            world_size=world_size,
            position=position,
            accumulation=accumulation,
        )

    return make


def content(batches: list[Batch]) -> list[tuple[bytes, bytes, bytes]]:
    """Rows without padding, with their labels: what the model learns from."""
    found = []
    for batch in batches:
        length = batch.input_ids.shape[1]
        for row in range(len(batch.lengths)):
            inside = batch.masked_positions // length == row
            if batch.sentence_labels[row] == IGNORED_LABEL and not inside.any():
                continue
            found.append(
                (
                    batch.input_ids[row, : batch.lengths[row]].tobytes(),
                    (batch.masked_positions[inside] % length).tobytes(),
                    batch.masked_labels[inside].tobytes(),
                )
            )
    return sorted(found)


@pytest.mark.parametrize("world_size", [2, 4, 3, 7])
def test_processes_together_see_the_batches_of_one(make_feed, world_size: int) -> None:  # type: ignore[no-untyped-def]
    alone = make_feed()
    many = [make_feed(rank, world_size) for rank in range(world_size)]
    for _ in range(3):
        alone_batches = alone.take(STAGE)
        expected = content(alone_batches)
        found = [batch for feed in many for batch in feed.take(STAGE)]
        assert content(found) == expected
        assert counts_of(found) == counts_of(alone_batches)
        assert {feed.position for feed in many} == {alone.position}


@pytest.mark.parametrize(("accumulation", "world_size"), [(2, 1), (4, 1), (100, 1), (3, 2), (3, 7)])
def test_accumulation_cuts_and_changes_nothing(
    make_feed: Callable[..., Feed], accumulation: int, world_size: int
) -> None:
    whole = make_feed()
    many = [make_feed(rank, world_size, accumulation=accumulation) for rank in range(world_size)]
    for _ in range(3):
        batches = whole.take(STAGE)
        parts = [part for feed in many for part in feed.take(STAGE)]
        assert content(parts) == content(batches)
        assert counts_of(parts) == counts_of(batches)
        assert {feed.position for feed in many} == {whole.position}
        largest = max(len(batch.lengths) for batch in batches)
        assert max(len(part.lengths) for part in parts) <= -(-largest // accumulation)


def test_going_on_equals_going_straight(make_feed) -> None:  # type: ignore[no-untyped-def]
    straight = make_feed()
    for _ in range(5):
        straight.take(STAGE)
    resumed = make_feed(position=straight.position)
    for _ in range(3):
        assert content(resumed.take(STAGE)) == content(straight.take(STAGE))


def test_a_longer_stage_begins_an_order_of_its_own_and_resumes(make_feed) -> None:  # type: ignore[no-untyped-def]
    longer = Stage(layers=2, length=64, batch_size=4, micro_batch_size=2, mask_rate=0.15)
    feed = make_feed()
    feed.take(STAGE)
    feed.take(longer)
    assert (feed.position.stage, feed.position.batch, feed.position.length) == (1, 2, 64)
    resumed = make_feed(position=feed.position)
    assert content(resumed.take(longer)) == content(feed.take(longer))
    assert resumed.position.stage == 1


def test_mask_rate_changes_masks_and_not_examples(make_feed) -> None:  # type: ignore[no-untyped-def]
    more = Stage(layers=2, length=32, batch_size=8, micro_batch_size=2, mask_rate=0.4)
    few, many = make_feed(), make_feed()
    few.take(STAGE)
    many.take(more)
    first, second = few.take(STAGE), many.take(more)
    assert sum(len(b.masked_labels) for b in second) > 2 * sum(len(b.masked_labels) for b in first)
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a.addresses, b.addresses)


def test_addresses_of_the_last_step(make_feed) -> None:  # type: ignore[no-untyped-def]
    feed = make_feed()
    feed.take(STAGE)
    batches = feed.take(STAGE)
    found = feed.addresses(STAGE)
    assert found["position"] == 4
    assert found["addresses"] == [batch.addresses.tolist() for batch in batches]


def test_parts_of_a_batch_cover_it(make_feed) -> None:  # type: ignore[no-untyped-def]
    (batch, *_) = make_feed().take(STAGE)
    for num_parts in (1, 2, 3, 5):
        parts = [rows_of(batch, part, num_parts) for part in range(num_parts)]
        assert content(parts) == content([batch])
        assert all(len(part.input_ids) >= 1 for part in parts)
