"""Check shards against their checksums before a run trusts them: all, or a seeded tenth of many."""

from __future__ import annotations

from collections.abc import Sequence

from litebert.common.rng import rng
from litebert.data.corpus.shards import ShardSet

READ_WHOLE_BYTES = 4 << 30
"""Read in seconds; of a larger corpus a part is verified when a run starts."""


def verify_shards(
    sets: Sequence[ShardSet], seed: int, *, everything: bool = False, part: int = 0, parts: int = 1
) -> str | None:
    """Verify shards before they are used: all up to 4 GB, of more a tenth unless ``everything``.

    Which tenth is drawn by the seed. Returns a line about what was not read, or None.
    ``part`` of ``parts`` is for processes that share the work.
    """
    found = [(shards, number) for shards in sets for number in range(len(shards.shards))]
    num_bytes = sum(shards.shards[number].num_bytes for shards, number in found)
    chosen, note = list(range(len(found))), None
    if num_bytes > READ_WHOLE_BYTES and not everything:
        count = -(-len(found) // 10)
        chosen = sorted(rng(seed, "verify").permutation(len(found))[:count].tolist())
        note = (
            f"{count:,} of {len(found):,} shards were checked against their checksums; --verify "
            f"checks all {num_bytes / 1e9:,.0f} GB"
        )
    for index in chosen[part::parts]:
        shards, number = found[index]
        shards.verify([number])
    return note
