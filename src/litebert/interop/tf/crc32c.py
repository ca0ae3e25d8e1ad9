"""CRC-32C of large byte strings with numpy, to check TensorFlow files against their checksums.

The standard library has only the other CRC-32 polynomial, and a byte-by-byte loop needs minutes
for a large checkpoint. CRCs are linear: the bytes are cut into equal lanes that advance together,
and the lanes are joined in pairs with a table that appends zeros.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_REVERSED_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_LANES = 4096
"""Bytes advanced by one numpy call; a power of two, so that lanes join in pairs."""

Words = npt.NDArray[np.uint32]


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C (Castagnoli) of ``data``.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    table = _byte_table()
    octets = np.frombuffer(data, dtype=np.uint8)
    lane_length = len(octets) // _LANES
    head = lane_length * _LANES
    register = 0xFFFFFFFF
    if head:
        lanes = np.zeros(_LANES, dtype=np.uint32)
        lanes[0] = register
        columns = np.ascontiguousarray(octets[:head].reshape(_LANES, lane_length).T)
        for column in columns:
            lanes = table[(lanes ^ column) & 0xFF] ^ (lanes >> np.uint32(8))
        register = _join(lanes, lane_length)
    for octet in octets[head:].tolist():
        register = int(table[(register ^ octet) & 0xFF]) ^ (register >> 8)
    return register ^ 0xFFFFFFFF


def masked_crc32c(data: bytes | memoryview) -> int:
    """Return the checksum as TensorFlow stores it: rotated, with a constant added."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _byte_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = (table & 1).astype(bool)
        table = (table >> np.uint32(1)) ^ np.where(odd, _REVERSED_POLYNOMIAL, 0).astype(np.uint32)
    return table


def _join(lanes: Words, lane_length: int) -> int:
    """Join the registers of neighbouring lanes, each ``lane_length`` bytes long, into one."""
    shift = _zeros_operator(lane_length)
    while len(lanes) > 1:
        lanes = _apply(shift, lanes[0::2]) ^ lanes[1::2]
        shift = _apply(shift, shift)
    return int(lanes[0])


def _zeros_operator(num_bytes: int) -> Words:
    """Return the linear map "append ``num_bytes`` zero bytes" as the images of the 32 bits."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    result, power = bits, _byte_table()[bits & 0xFF] ^ (bits >> np.uint32(8))
    while num_bytes:
        if num_bytes & 1:
            result = _apply(power, result)
        power = _apply(power, power)
        num_bytes >>= 1
    return result


def _apply(operator: Words, registers: Words) -> Words:
    """Apply a linear map on 32 bits to every register."""
    bits = (registers[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    selected = np.where(bits.astype(bool), operator, np.uint32(0))
    joined: Words = np.bitwise_xor.reduce(selected, axis=1)
    return joined
