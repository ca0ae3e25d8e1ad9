"""CRC-32C equals the published values and the bit-by-bit definition at every length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.interop.tf.bundle import crc32c, masked_crc32c


def by_definition(data: bytes) -> int:
    register = 0xFFFFFFFF
    for octet in data:
        register ^= octet
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this one and the next: RFC 3720, appendix B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_published_values(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@settings(max_examples=25, deadline=None)
@given(length=st.integers(0, 13_000), seed=st.integers(0, 2**32 - 1))
def test_lanes_equal_the_definition(length: int, seed: int) -> None:
    data = np.random.default_rng(seed).bytes(length)
    assert crc32c(data) == by_definition(data)


def test_a_flipped_bit_changes_it() -> None:
    data = bytearray(np.random.default_rng(0).bytes(100_000))
    before = masked_crc32c(bytes(data))
    data[54_321] ^= 1
    assert masked_crc32c(bytes(data)) != before
