"""Randomness by address: a random stream is a pure function of seed, purpose and position."""

from __future__ import annotations

import hashlib

import numpy as np


def rng(seed: int, purpose: str, *address: int) -> np.random.Generator:
    """Return the generator that belongs to an address, the same on every machine and rank.

    No state is carried from one address to the next, so workers, ranks and resumed runs
    draw the same numbers without talking to each other. Two purposes never share a stream.
    """
    return np.random.Generator(np.random.Philox(key=_key(seed, purpose, address)))


def derived_seed(seed: int, purpose: str, *address: int) -> int:
    """Return a 63-bit seed for libraries that only take an integer (``torch.manual_seed``)."""
    return _key(seed, purpose, address) >> 65


def _key(seed: int, purpose: str, address: tuple[int, ...]) -> int:
    text = "\x1f".join((str(seed), purpose, *(str(int(part)) for part in address)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
