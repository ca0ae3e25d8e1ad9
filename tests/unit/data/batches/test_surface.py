"""Rules that read no sentence: the lengths of two segments, and the pieces they share."""

from __future__ import annotations

import numpy as np
import pytest

from litebert.data.batches.example import Batch
from litebert.data.batches.pairs import length_rule, overlap_rule
from litebert.model.config import IGNORED_LABEL

MASK = 4


def batch_of(*pairs: tuple[list[int], list[int], int]) -> Batch:
    """A batch of [CLS] A [SEP] B [SEP], whose first piece of A is masked."""
    rows = [[2, *first, 3, *second, 3] for first, second, _ in pairs]
    length = max(map(len, rows))
    ids = np.array([row + [0] * (length - len(row)) for row in rows])
    types = np.zeros_like(ids)
    for row, (first, second, _) in enumerate(pairs):
        types[row, len(first) + 2 : len(first) + len(second) + 3] = 1
    places = np.arange(len(pairs)) * length + 1
    labels = ids.reshape(-1)[places].copy()
    ids.reshape(-1)[places] = MASK
    return Batch(
        input_ids=ids,
        token_type_ids=types,
        lengths=np.array([len(row) for row in rows]),
        masked_positions=places,
        masked_labels=labels,
        sentence_labels=np.array([label for *_, label in pairs]),
        addresses=np.zeros((len(pairs), 3), np.int64),
        position=0,
    )


def test_a_longer_first_segment_means_swapped() -> None:
    right = batch_of(([5, 6], [7], 1), ([5], [6, 7, 8], 0))
    wrong, tie = batch_of(([5, 6], [7], 0)), batch_of(([5], [6], 1), ([5], [6], IGNORED_LABEL))
    assert length_rule([right]) == 1.0
    assert length_rule([right, wrong]) == pytest.approx(2 / 3)
    assert length_rule([tie]) == 0.5
    assert length_rule([batch_of(([5], [6], IGNORED_LABEL))]) is None


def test_shared_pieces_are_those_before_masking_with_the_best_threshold() -> None:
    same, other = ([5, 6, 7], [5, 8, 9], 0), ([5, 6, 7], [8, 9], 1)
    assert overlap_rule([batch_of(same, other), batch_of(same)]) == 1.0
    # Equal shares cannot be told apart.
    assert overlap_rule([batch_of(other, other), batch_of((*other[:2], 0))]) == pytest.approx(2 / 3)
    # The wrong way round the best threshold says the same of all.
    assert overlap_rule([batch_of((*same[:2], 1), (*other[:2], 0))]) == 0.5
    assert overlap_rule([batch_of(([5], [6], IGNORED_LABEL))]) is None
