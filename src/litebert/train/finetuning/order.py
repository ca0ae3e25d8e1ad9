"""Which examples a fine-tuning step sees: shuffled, grouped by length, cut by token budget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from litebert.common.rng import rng

IndexArray = npt.NDArray[np.int64]

_MOST_BATCHES_PER_GROUP = 64
_GROUPS_PER_EPOCH = 4


class BatchOrder:
    """The batches of every epoch, as a pure function of the seed and the step.

    Each epoch shuffles the features, cuts them into groups of several batches, sorts each group by
    length and shuffles the batches: equal lengths meet by chance and almost nothing is padded.

    Example:
        >>> order = BatchOrder([5, 9, 5, 9], batch_size=2, seed=0)
        >>> order.batch(step=0)
        array([0, 2])
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = np.asarray(lengths, np.int64)
        self.batch_size, self.seed = batch_size, seed
        self.steps_per_epoch = -(-len(self.lengths) // batch_size)
        self._epoch = lru_cache(maxsize=1)(self._make_epoch)

    def batch(self, step: int) -> IndexArray:
        """Return the feature indices of a step, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.steps_per_epoch)
        return self._epoch(epoch)[position]

    def _make_epoch(self, epoch: int) -> list[IndexArray]:
        generator = rng(self.seed, "fine-tuning order", epoch)
        order = generator.permutation(len(self.lengths))
        # With little data large groups would put the same neighbours together in every epoch.
        per_group = min(_MOST_BATCHES_PER_GROUP, max(1, self.steps_per_epoch // _GROUPS_PER_EPOCH))
        size = per_group * self.batch_size
        batches: list[IndexArray] = []
        for begin in range(0, len(order), size):
            group = order[begin : begin + size]
            group = group[np.argsort(self.lengths[group], kind="stable")]
            batches += [
                group[start : start + self.batch_size]
                for start in range(0, len(group), self.batch_size)
            ]
        return [batches[index] for index in generator.permutation(len(batches))]
