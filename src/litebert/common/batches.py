"""Batches by token budget: group what is equally long, so that almost nothing is padding."""

from __future__ import annotations

from collections.abc import Sequence


def batches_by_tokens(
    lengths: Sequence[int], max_tokens: int, max_items: int | None = None
) -> list[list[int]]:
    """Cut item indices into batches of similar length whose padded size fits a budget.

    The padded size of a batch is its number of items times its longest length. An item that
    alone exceeds the budget becomes a batch of its own: the caller decides whether to refuse it.

    Args:
        lengths: tokens of each item.
        max_tokens: budget for ``len(batch) * max(length in batch)``.
        max_items: optional upper bound on the items of one batch.

    Returns:
        Lists of indices into ``lengths``; together they hold every index exactly once, ordered
        by length (equal lengths keep their input order).

    Example:
        >>> batches_by_tokens([5, 2, 5, 2], max_tokens=10)
        [[1, 3], [0, 2]]
    """
    batches: list[list[int]] = []
    current: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        too_long = (len(current) + 1) * lengths[index] > max_tokens
        too_many = max_items is not None and len(current) >= max_items
        if current and (too_long or too_many):
            batches.append(current)
            current = []
        current.append(index)
    if current:
        batches.append(current)
    return batches


def padding_share(lengths: Sequence[int], batches: Sequence[Sequence[int]]) -> float:
    """Return the share of padded positions when each batch is padded to its longest item."""
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches if batch)
    real = sum(lengths[i] for batch in batches for i in batch)
    return 1.0 - real / padded if padded else 0.0
