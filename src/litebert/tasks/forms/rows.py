"""From texts to encoder rows: encode each text once, cut pairs, add special tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from litebert.tasks.base import Row
from litebert.text.tokenizer import Tokenizer

_TEXTS_PER_CALL = 4096  # bounds the memory of one call into the tokenizer


def encode_unique(texts: Iterable[str], tokenizer: Tokenizer) -> dict[str, list[int]]:
    """Return the piece ids of each different text; RACE asks four options about one passage."""
    unique = list(dict.fromkeys(texts))
    encoded: dict[str, list[int]] = {}
    for begin in range(0, len(unique), _TEXTS_PER_CALL):
        part = unique[begin : begin + _TEXTS_PER_CALL]
        encoded.update(zip(part, tokenizer.encode_batch(part), strict=True))
    return encoded


def single_row(ids: Sequence[int], tokenizer: Tokenizer, max_length: int) -> Row:
    """Return ``[CLS] ids [SEP]``, cut at the end to ``max_length``."""
    kept = ids[: max_length - 2]
    row = np.array([tokenizer.cls_id, *kept, tokenizer.sep_id], np.int32)
    return Row(row, len(row))


def pair_row(first: Sequence[int], second: Sequence[int], tokenizer: Tokenizer, max_length: int) -> Row:
    """Return ``[CLS] first [SEP] second [SEP]``; the longer loses its tail (a tie: the second)."""
    num_first, num_second = cut_pair(len(first), len(second), max_length - 3)
    sep = tokenizer.sep_id
    row = [tokenizer.cls_id, *first[:num_first], sep, *second[:num_second], sep]
    return Row(np.array(row, np.int32), num_first + 2)


def cut_pair(num_first: int, num_second: int, budget: int) -> tuple[int, int]:
    """Return how many tokens of each side stay, as if the longer lost one token at a time.

    >>> cut_pair(10, 4, 9), cut_pair(10, 10, 9)
    ((5, 4), (5, 4))
    """
    # The shorter side stays whole up to half of the budget; of an odd one the first has more.
    if num_first > num_second:
        num_second = min(num_second, budget // 2)
        return min(num_first, budget - num_second), num_second
    num_first = min(num_first, (budget + 1) // 2)
    return num_first, min(num_second, budget - num_first)
