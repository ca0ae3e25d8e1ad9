"""A few of many items, each equally likely, in bounded memory."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def drawn(items: Iterable[Item], count: int, seed: int) -> list[Item]:
    """Draw `count` of the items, or all of fewer."""
    generator = random.Random(seed)
    kept: list[Item] = []
    for seen, item in enumerate(items, start=1):
        place = len(kept) if len(kept) < count else generator.randrange(seen)
        if place < count:
            kept[place : place + 1] = [item]
    return kept
