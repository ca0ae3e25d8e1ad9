"""What rules that read no sentence reach on labelled pairs: a sentence task must beat them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from litebert.data.batches.example import Batch
from litebert.model.config import IGNORED_LABEL


def length_rule(batches: Sequence[Batch]) -> float | None:
    """Accuracy of "the longer one first: swapped" (as long: a half); None without labels."""
    right = count = 0.0
    for batch in batches:
        labelled = batch.sentence_labels != IGNORED_LABEL
        second = batch.token_type_ids.sum(1) - 1  # without its [SEP]
        first = batch.lengths - second - 3
        swapped = np.sign(first - second)[labelled]
        labels = 2 * batch.sentence_labels[labelled] - 1
        right += float((swapped == labels).sum()) + 0.5 * float((swapped == 0).sum())
        count += float(labelled.sum())
    return right / count if count else None


def overlap_rule(batches: Sequence[Batch]) -> float | None:
    """Accuracy of "few pieces in common, so they are from two documents"; None without labels.

    What counts is the share of the pieces of the poorer segment that the other one has too. The threshold is the best
    one for these very pairs.
    """
    shares: list[float] = []
    labels: list[int] = []
    for batch in batches:
        ids, borders = batch.originals(), batch.lengths - batch.token_type_ids.sum(1)
        for row in np.flatnonzero(batch.sentence_labels != IGNORED_LABEL):
            first = set(ids[row, 1 : borders[row] - 1].tolist())
            second = set(ids[row, borders[row] : batch.lengths[row] - 1].tolist())
            shares.append(len(first & second) / max(1, min(len(first), len(second))))
            labels.append(int(batch.sentence_labels[row]))
    if not labels:
        return None
    order = np.argsort(shares, kind="stable")
    ascending = np.array(shares)[order]
    # With the first k below the threshold: their ones and the others' zeros are right.
    ones = np.concatenate(([0], np.cumsum(np.array(labels)[order])))
    zeros_above = (len(labels) - ones[-1]) - (np.arange(len(ones)) - ones)
    possible = np.concatenate(([True], ascending[1:] != ascending[:-1], [True]))
    return float((ones + zeros_above)[possible].max() / len(labels))
