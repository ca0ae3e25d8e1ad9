"""The batches of each training step, for this process, from an exact position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from litebert.common.errors import DataError
from litebert.data.batches.example import Batch, ExampleConfig, Task, Vocabulary
from litebert.data.batches.loader import Loader
from litebert.data.corpus.shards import ShardSet
from litebert.model.config import IGNORED_LABEL
from litebert.train.pretraining.curriculum import Stage


@dataclass(frozen=True)
class FeedPosition:
    """Where the data stands: all that a checkpoint needs to know of it."""

    stage: int = 0  # how often length, micro-batch size or task have changed; each stage has its own order
    batch: int = 0  # global micro-batches of this stage that are used up
    length: int = 0  # 0 before the first step
    micro_batch_size: int = 0
    task: Task | None = None


class Feed:
    """Hands out the micro-batches of each step; ranks together see the same global batches.

    A step of k micro-batches uses k positions. If the number of processes divides k, each process takes every R-th one;
    else each takes its rows of every one. ``accumulation`` is the number of shares that each of these is cut into, in
    the same order.
    """

    def __init__(
        self,
        sources: Sequence[tuple[ShardSet, float]],
        config: ExampleConfig,
        seed: int,
        vocabulary: Vocabulary,
        *,
        rank: int = 0,
        world_size: int = 1,
        accumulation: int = 1,
        num_workers: int = 0,
        position: FeedPosition | None = None,
    ) -> None:
        self.position = FeedPosition() if position is None else position
        self._sources, self._config, self._seed = sources, config, seed
        self._vocabulary, self._num_workers = vocabulary, num_workers
        self._rank, self._world_size, self._accumulation = rank, world_size, accumulation
        self._loader: Loader | None = None
        self._stream: Iterator[Batch] | None = None
        self._stream_key: tuple[int, int, float, int] | None = None

    def take(self, stage: Stage) -> list[Batch]:
        """This process's share of the next step, cut as it is computed; the position moves on."""
        loader = self._enter(stage)
        k, first = stage.num_micro, self.position.batch
        striding = k % self._world_size == 0
        stride = self._world_size if striding else 1
        start = first + (self._rank if striding else 0)
        if self._stream is None or self._stream_key != self._key(start, stage, stride):
            self.close()
            masked = loader.with_mask_rate(stage.mask_rate)
            self._stream = masked.iterate(start, stride=stride, num_workers=self._num_workers)
        try:
            batches = list(islice(self._stream, k // stride))
        except OSError as error:
            raise DataError(f"a shard cannot be read: {error}; check the disk, then resume") from error
        self._stream_key = self._key(start + k, stage, stride)
        self.position = replace(self.position, batch=first + k)
        if not striding:
            batches = [rows_of(batch, self._rank, self._world_size) for batch in batches]
        return [share for batch in batches for share in shares_of(batch, self._accumulation)]

    def _key(self, start: int, stage: Stage, stride: int) -> tuple[int, int, float, int]:
        """What a stream that goes on at a batch was opened for."""
        return self.position.stage, start, stage.mask_rate, stride

    def addresses(self, stage: Stage) -> dict[str, object]:
        """Where the examples of the last step came from.

        For each global micro-batch its corpus and, for each example, (epoch, buffer, index).
        """
        assert self._loader is not None, "a step was taken"
        last = self.position.batch
        first = last - stage.num_micro
        batches = [self._loader.batch(number) for number in range(first, last)]
        return {
            "stage": self.position.stage,
            "position": first,
            "sources": [batch.source for batch in batches],
            "addresses": [batch.addresses.tolist() for batch in batches],
        }

    def epochs(self) -> tuple[float, ...]:
        """Passes over each corpus in the current stage."""
        return self._loader.epochs_at(self.position.batch) if self._loader else (0.0,)

    def close(self) -> None:
        """Stop the worker processes."""
        stream, self._stream, self._stream_key = self._stream, None, None
        if stream is not None and hasattr(stream, "close"):
            stream.close()

    def _enter(self, stage: Stage) -> Loader:
        """Go to the loader of this stage; another length, size or task begins a new order."""
        here = self.position
        wanted = (stage.length, stage.micro_batch_size, stage.task)
        if (here.length, here.micro_batch_size, here.task) != wanted:
            number = here.stage + 1 if here.length else here.stage
            self.position = FeedPosition(number, 0, *wanted)
            self._loader = None
        if self._loader is None:
            self.close()
            size, task = stage.micro_batch_size, stage.task or self._config.task
            config = replace(self._config, length=stage.length, micro_batch_size=size, task=task)
            number = self.position.stage
            self._loader = Loader(self._sources, config, self._seed, self._vocabulary, number)
        return self._loader


def without_masks(batch: Batch) -> Batch:
    """The same examples with every word in its place and nothing to predict."""
    none = batch.masked_positions[:0]
    return replace(batch, input_ids=batch.originals(), masked_positions=none, masked_labels=none)


def shares_of(batch: Batch, num_shares: int) -> list[Batch]:
    """A batch as ``num_shares`` nearly equal shares, or as many as it has rows."""
    num_shares = min(num_shares, len(batch.input_ids))
    return [rows_of(batch, share, num_shares) for share in range(num_shares)]


def rows_of(batch: Batch, share: int, num_shares: int) -> Batch:
    """One of ``num_shares`` nearly equal shares of a batch's rows.

    A share without rows becomes one row without labels and address: it costs a little and changes nothing, and the
    process still takes share in what all processes do together.
    """
    num_rows, length = batch.input_ids.shape
    first, last = num_rows * share // num_shares, num_rows * (share + 1) // num_shares
    addresses = batch.addresses[first:last]
    if is_empty := first == last:
        first, last = 0, 1
    row = batch.masked_positions // length
    inside = (row >= first) & (row < last) & (not is_empty)
    labels = batch.sentence_labels[first:last]
    return replace(
        batch,
        input_ids=batch.input_ids[first:last],
        token_type_ids=batch.token_type_ids[first:last],
        lengths=batch.lengths[first:last],
        masked_positions=batch.masked_positions[inside] - first * length,
        masked_labels=batch.masked_labels[inside],
        sentence_labels=np.full_like(labels, IGNORED_LABEL) if is_empty else labels,
        addresses=addresses,
        # A vector of zeros has no loss.
        vectors=None if batch.vectors is None else batch.vectors[first:last] * (not is_empty),
    )
