"""Which inputs share a batch: those of nearly equal length, so that almost nothing is padding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from litebert.common.rng import rng
from litebert.tasks.base import Feature, IntArray

DEFAULT_MAX_TOKENS = 2048  # of one batch: enough for two cores, few enough to stay in cache
CALL_TOKENS = 20
"""What a model call costs beside its tokens, in tokens. Measured with torch and albert-base on one
core: 25 tokens alone ran at 243 tokens/s, 800 together at 434; onnxruntime loses less."""

MAX_PADDING = 2  # budgets that padded outputs may hold: padding not computed still costs memory


def pack(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Cut inputs, sorted by length, into the batches that cost least within a budget.

    A batch costs its padded tokens and :data:`CALL_TOKENS`; the cheapest cuts are found exactly,
    by dynamic programming over the sorted inputs. The budget is for ``len(batch) * max(length in
    batch)``; an input beyond it is a batch of its own. Every index is in one list, shortest first.

        >>> pack([5, 40, 6, 41], max_tokens=100)
        [[0, 2], [1, 3]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    count = len(order)
    cost = np.zeros(count + 1)  # of the inputs before each place
    start = np.zeros(count + 1, np.int64)  # where the last batch before each place begins
    for end in range(1, count + 1):
        longest = lengths[order[end - 1]]
        first = max(0, end - max(1, max_tokens // max(1, longest)))
        sizes = np.arange(end - first, 0, -1)
        costs = cost[first:end] + sizes * longest
        choice = int(costs.argmin())
        cost[end], start[end] = costs[choice] + CALL_TOKENS, first + choice
    batches: list[list[int]] = []
    end = count
    while end:
        batches.append(order[start[end] : end])
        end = int(start[end])
    return batches[::-1]


def fill(lengths: Sequence[int], max_tokens: int, max_padding: float = MAX_PADDING) -> list[list[int]]:
    """Cut inputs, sorted by length, into as few batches as a budget allows.

    The budget is for the sum of the lengths; an input beyond it is a batch of its own. The padded
    size of a batch may be ``max_padding`` budgets, 1 where padding is computed.

        >>> fill([5, 40, 6, 41], max_tokens=60)
        [[0, 2, 1], [3]]
    """
    batches: list[list[int]] = []
    num_tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        padded = (len(batches[-1]) + 1) * length if batches else 0
        if not batches or num_tokens + length > max_tokens or padded > max_padding * max_tokens:
            batches.append([])
            num_tokens = 0
        batches[-1].append(index)
        num_tokens += length
    return batches


def first_batch(lengths: Sequence[int], max_tokens: int, pads: bool = True) -> list[int]:
    """Choose the next batch of a queue: its oldest input and what may share its call.

    If padding is computed it counts towards the budget, and only inputs of nearly the oldest's length join it: a few
    tokens, or an eighth. ``lengths`` has the oldest first, the indices returned are in queue order.

        >>> first_batch([20, 500, 21, 19, 22], 70), first_batch([20, 30, 10, 5], 60, pads=False)
        ([0, 2, 3], [0, 1, 2])
    """
    chosen, num_tokens, longest = [0], lengths[0], lengths[0]
    most_padded = max_tokens if pads else MAX_PADDING * max_tokens
    for index in range(1, len(lengths)):
        length = lengths[index]
        shorter, longer = sorted((lengths[0], length))
        if pads and longer > shorter + max(2, shorter // 8):
            continue
        padded = (len(chosen) + 1) * max(longest, length)
        if num_tokens + length <= max_tokens and padded <= most_padded:
            chosen.append(index)
            num_tokens += length
            longest = max(longest, length)
    return chosen


def micro_batches(features: Sequence[Feature], max_tokens: int) -> list[list[int]]:
    """Cut a step's features, apart by number of choices, into ``max_tokens`` with padding or one larger feature."""
    by_choices: dict[int, list[int]] = defaultdict(list)
    for index, feature in enumerate(features):
        by_choices[len(feature.rows)].append(index)
    cut: list[list[int]] = []
    for num_choices, members in by_choices.items():
        lengths = [len(features[index]) * num_choices for index in members]
        cut += [[members[at] for at in batch] for batch in fill(lengths, max_tokens, max_padding=1)]
    return cut


class BatchOrder:
    """The batches of a training's epochs, as a pure function of the seed and the step.

    Each epoch shuffles the features, cuts them into groups of several batches, sorts each group by
    length and shuffles the batches: equal lengths meet by chance and almost nothing is padded.
    """

    def __init__(self, lengths: npt.ArrayLike, batch_size: int, seed: int, purpose: str = "fine-tuning order") -> None:
        self.lengths = np.asarray(lengths, np.int64)
        self.batch_size, self.seed, self.purpose = batch_size, seed, purpose
        self.steps_per_epoch = -(-len(self.lengths) // batch_size)
        self._epoch = lru_cache(maxsize=1)(self._make_epoch)

    def batch(self, step: int) -> IntArray:
        """Return the feature indices of a step, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.steps_per_epoch)
        return self._epoch(epoch)[position]

    def _make_epoch(self, epoch: int) -> list[IntArray]:
        generator = rng(self.seed, self.purpose, epoch)
        order = generator.permutation(len(self.lengths))
        # With little data large groups would put the same neighbours together in every epoch.
        per_group = min(64, max(1, self.steps_per_epoch // 4))
        size = per_group * self.batch_size
        batches: list[IntArray] = []
        for group in (order[begin : begin + size] for begin in range(0, len(order), size)):
            ranked = group[np.argsort(self.lengths[group], kind="stable")]
            batches += np.split(ranked, range(self.batch_size, len(ranked), self.batch_size))
        return [batches[index] for index in generator.permutation(len(batches))]
