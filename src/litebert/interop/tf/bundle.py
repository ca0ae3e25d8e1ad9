"""Read TensorFlow checkpoint files (tensor bundles: index table, data shards) without TensorFlow.

A checkpoint ``PREFIX`` is ``PREFIX.index``, a sorted table (the LevelDB file layout) from variable
name to a small protobuf record, and ``PREFIX.data-00000-of-0000N``, the raw bytes. Only the few
protobuf fields needed are decoded. Every byte that is used is checked against its CRC-32C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from litebert.common.errors import CheckpointError
from litebert.common.files import read_bytes
from litebert.common.limits import check_regular
from litebert.interop.hf_config import readable

_FOOTER_BYTES = 48
_LARGEST_INDEX = 1 << 28
_TABLE_MAGIC = 0xDB4775248B80FB57
_BLOCK_TRAILER_BYTES = 5

_BFLOAT16 = 14  # the upper half of a float32
_FLOAT_TYPES: dict[int, str] = {1: "<f4", 2: "<f8", 19: "<f2", _BFLOAT16: "<u2"}

_REVERSED_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_LANES = 4096
"""Bytes advanced by one numpy call; a power of two, so that lanes join in pairs."""

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class BundleEntry:
    """Where the bytes of one variable are: from ``offset`` in the data file number ``shard``."""

    dtype: int  # TensorFlow's number for the element type (1 is float32)
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int  # masked CRC-32C of the bytes
    sliced: bool  # whether the variable is stored in partitions


class TensorBundle:
    """A TensorFlow checkpoint, opened by its prefix."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.index_path = prefix.with_name(prefix.name + ".index")
        with readable(self.index_path):
            data = read_bytes(self.index_path, _LARGEST_INDEX)
        try:
            table = dict(_table_items(data))
            header = dict(_fields(table.pop(b"")))
            self.num_shards = _integer(header, 1)
            big_endian = _integer(header, 2) != 0
            self.entries = {name.decode(): _entry(value) for name, value in table.items()}
        except (IndexError, KeyError, ValueError) as error:
            reason = str(error) if isinstance(error, _FormatError) else "it is cut or damaged"
            raise CheckpointError(f"{self.index_path} is not the index of a TensorFlow checkpoint: {reason}") from None
        if big_endian:
            raise CheckpointError(f"{self.index_path} is big-endian; only little-endian is read")

    def read(self, name: str) -> npt.NDArray[np.float32]:
        """Return a variable as float32, its bytes checked against the stored checksum."""
        entry = self.entries[name]
        if entry.dtype not in _FLOAT_TYPES:
            raise CheckpointError(f"variable {name} has element type {entry.dtype}, not a float")
        dtype = np.dtype(_FLOAT_TYPES[entry.dtype])
        if entry.size != math.prod(entry.shape) * dtype.itemsize:
            raise CheckpointError(f"{self.index_path}: {name} has {entry.size} bytes for shape {entry.shape}")
        values = np.frombuffer(self._bytes(name, entry), dtype)
        if entry.dtype == _BFLOAT16:
            values = (values.astype("<u4") << 16).view("<f4")
        return values.astype(np.float32).reshape(entry.shape)

    def _bytes(self, name: str, entry: BundleEntry) -> bytes:
        if entry.sliced:
            raise CheckpointError(f"{self.prefix}: {name} is partitioned; merge its slices first")
        shard = f"{self.prefix.name}.data-{entry.shard:05d}-of-{self.num_shards:05d}"
        path = self.prefix.with_name(shard)
        with readable(path):
            if entry.offset + entry.size > check_regular(path):
                raise CheckpointError(f"{path} is cut: {name} ends after the end of the file")
            with path.open("rb") as stream:
                stream.seek(entry.offset)
                data = stream.read(entry.size)
        if masked_crc32c(data) != entry.crc:
            raise CheckpointError(f"{path} is damaged: the checksum of {name} does not match")
        return data


class _FormatError(ValueError):
    """Why a file is not an index table, for people."""


# The index table: blocks of prefix-compressed keys, an index block over them, a footer.


def _table_items(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of a sorted table in order."""
    if len(data) < _FOOTER_BYTES:
        raise _FormatError(f"{len(data)} bytes are too few")
    footer = data[-_FOOTER_BYTES:]
    if int.from_bytes(footer[-8:], "little") != _TABLE_MAGIC:
        raise _FormatError("its last bytes are not the table's mark (a cut or foreign file)")
    _, position = _handle(footer, 0)  # the meta-index is always empty
    index_handle, _ = _handle(footer, position)
    for _, value in _block_items(_block(data, *index_handle)):
        handle, _ = _handle(value, 0)
        yield from _block_items(_block(data, *handle))


def _handle(data: bytes, position: int) -> tuple[tuple[int, int], int]:
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return (offset, size), position


def _block(data: bytes, offset: int, size: int) -> bytes:
    """Return the content of a block after checking its trailer (compression, checksum)."""
    end = offset + size
    if end + _BLOCK_TRAILER_BYTES > len(data) - _FOOTER_BYTES:
        raise _FormatError("a block ends after the end of the file")
    stored_crc = int.from_bytes(data[end + 1 : end + _BLOCK_TRAILER_BYTES], "little")
    if masked_crc32c(data[offset : end + 1]) != stored_crc:
        raise _FormatError("the checksum of a block does not match")
    if data[end] != 0:
        # TensorFlow's checkpoint writer always turns compression off.
        raise _FormatError("its blocks are compressed")
    return data[offset:end]


def _block_items(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    num_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (num_restarts + 1)
    position, key = 0, b""
    while position < end:
        shared, position = _varint(block, position)
        unshared, position = _varint(block, position)
        value_size, position = _varint(block, position)
        key = key[:shared] + block[position : position + unshared]
        position += unshared
        yield key, block[position : position + value_size]
        position += value_size


# Protobuf: fields as (number, value), where a value is an integer or a byte string.


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire_type == 2:
            size, position = _varint(message, position)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise _FormatError(f"a record has the unknown wire type {wire_type}")
        chunk = message[position : position + size]
        if len(chunk) != size:
            raise _FormatError("a record ends too early")
        position += size
        yield number, chunk if wire_type == 2 else int.from_bytes(chunk, "little")


def _integer(fields: dict[int, int | bytes], number: int) -> int:
    value = fields.get(number, 0)  # proto3 leaves zeros out
    if not isinstance(value, int):
        raise _FormatError(f"field {number} of a record is not a number")
    return value


def _entry(message: bytes) -> BundleEntry:
    fields = dict(_fields(message))  # the last of each number counts, which is protobuf's own rule
    dimensions = [size for number, size in _fields(_record(fields.get(2, b""))) if number == 2]
    shape = tuple(_integer(dict(_fields(_record(size))), 1) for size in dimensions)
    shard, offset, size, crc = (_integer(fields, number) for number in (3, 4, 5, 6))
    return BundleEntry(_integer(fields, 1), shape, shard, offset, size, crc, sliced=7 in fields)


def _record(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _FormatError("a shape is a number instead of a record")
    return value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        octet = data[position]
        position += 1
        result |= (octet & 0x7F) << shift
        if octet < 0x80:
            return result, position
        shift += 7


# CRC-32C. The standard library has only the other polynomial, and a byte-by-byte loop needs minutes
# for a large checkpoint. CRCs are linear: the bytes are cut into equal lanes that advance together,
# and neighbouring lanes are joined by appending zeros to the first.


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C (Castagnoli) of ``data``.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table = _byte_table()
    octets = np.frombuffer(data, dtype=np.uint8)
    lane_length = len(octets) // _LANES
    head = lane_length * _LANES
    register = 0xFFFFFFFF
    if head:
        # 32 more lanes read zeros, from one bit each: what a lane's length does to every bit.
        lanes = np.zeros(_LANES + 32, dtype=np.uint32)
        lanes[0] = register
        lanes[_LANES:] = 1 << np.arange(32)
        columns = np.zeros((lane_length, len(lanes)), dtype=np.uint8)
        columns[:, :_LANES] = octets[:head].reshape(_LANES, lane_length).T
        for column in columns:
            lanes = table[(lanes ^ column) & 0xFF] ^ (lanes >> np.uint32(8))
        lanes, shift = lanes[:_LANES], lanes[_LANES:]
        while len(lanes) > 1:
            lanes = _apply(shift, lanes[0::2]) ^ lanes[1::2]
            shift = _apply(shift, shift)
        register = int(lanes[0])
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


def _apply(operator: Words, registers: Words) -> Words:
    """Apply a linear map, given as the images of the 32 bits, to every register."""
    bits = (registers[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    selected = np.where(bits.astype(bool), operator, np.uint32(0))
    joined: Words = np.bitwise_xor.reduce(selected, axis=1)
    return joined
