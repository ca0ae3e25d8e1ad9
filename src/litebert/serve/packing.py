"""Which inputs share a batch: those of nearly equal length, so that almost nothing is padding.

On a processor a batch of one runs at nearly the same rate per token as a large one (measured:
16 tokens alone within 10 % of 128), so padding costs more than batching gains.
"""

from __future__ import annotations

from collections.abc import Sequence


def longest_partner(length: int) -> int:
    """Return the longest input that may share a batch with one of this length."""
    return length + max(2, length // 8)


def pack(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Cut inputs into batches of similar length within a budget of padded tokens.

    Args:
        lengths: tokens of each input.
        max_tokens: budget for ``len(batch) * max(length in batch)``; an input beyond it is a
            batch of its own.

    Returns:
        Lists of indices into ``lengths``, every index once, shortest first.

    Example:
        >>> pack([5, 40, 6, 41], max_tokens=100)
        [[0, 2], [1, 3]]
    """
    batches: list[list[int]] = []
    limit = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        if not batches or length > limit or (len(batches[-1]) + 1) * length > max_tokens:
            batches.append([])
            limit = longest_partner(length)
        batches[-1].append(index)
    return batches


def first_batch(lengths: Sequence[int], max_tokens: int) -> list[int]:
    """Choose the next batch of a queue: its oldest input and others of nearly that length.

    Args:
        lengths: tokens of each waiting input, the oldest first; not empty.
        max_tokens: budget for padded tokens.

    Returns:
        Indices into ``lengths`` in queue order; 0 is always among them.

    Example:
        >>> first_batch([20, 500, 21, 19, 22], max_tokens=70)
        [0, 2, 3]
    """
    oldest = lengths[0]
    chosen, longest = [0], oldest
    for index in range(1, len(lengths)):
        length = lengths[index]
        near = length <= longest_partner(oldest) and oldest <= longest_partner(length)
        padded = (len(chosen) + 1) * max(longest, length)
        if near and padded <= max_tokens:
            chosen.append(index)
            longest = max(longest, length)
    return chosen
