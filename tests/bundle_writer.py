"""Write small TensorFlow checkpoints for tests: the reader's counterpart, bytes by the format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from litebert.interop.tf.bundle import masked_crc32c

MAGIC = 0xDB4775248B80FB57
TYPES = {"float32": 1, "float64": 2, "int64": 9, "uint16": 14, "float16": 19}  # uint16: bfloat16


def varint(value: int) -> bytes:
    octets = bytearray()
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def record(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def entry(array: np.ndarray, shard: int, offset: int) -> bytes:
    shape = b"".join(record(2, number(1, size)) for size in array.shape)
    crc = masked_crc32c(array.tobytes()).to_bytes(4, "little")
    return (
        number(1, TYPES[array.dtype.name])
        + record(2, shape)
        + number(3, shard)
        + number(4, offset)
        + number(5, array.nbytes)
        + varint(6 << 3 | 5)
        + crc
    )


def block(items: list[tuple[bytes, bytes]], compression: int = 0) -> bytes:
    content, previous = b"", b""
    for key, value in items:
        shared = 0
        while shared < min(len(key), len(previous)) and key[shared] == previous[shared]:
            shared += 1
        content += varint(shared) + varint(len(key) - shared) + varint(len(value))
        content += key[shared:] + value
        previous = key
    content += (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    typed = content + bytes([compression])
    return typed + masked_crc32c(typed).to_bytes(4, "little")


def write_bundle(
    prefix: Path,
    arrays: Mapping[str, np.ndarray],
    *,
    num_shards: int = 1,
    items_per_block: int = 5,
    compression: int = 0,
    big_endian: bool = False,
) -> None:
    """Write ``PREFIX.index`` and its data shards; variables go to the shards in turn."""
    shards = [bytearray() for _ in range(num_shards)]
    items = [(b"", number(1, num_shards) + number(2, int(big_endian)))]
    for position, name in enumerate(sorted(arrays)):
        shard = position % num_shards
        items.append((name.encode(), entry(arrays[name], shard, len(shards[shard]))))
        shards[shard] += arrays[name].tobytes()
    for shard, data in enumerate(shards):
        path = prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{num_shards:05d}")
        path.write_bytes(bytes(data))

    file, index = bytearray(), []

    def append(content: bytes) -> bytes:
        handle = varint(len(file)) + varint(len(content) - 5)
        file.extend(content)
        return handle

    for start in range(0, len(items), items_per_block):
        chunk = items[start : start + items_per_block]
        index.append((chunk[-1][0], append(block(chunk, compression))))
    handles = append(block([])) + append(block(index))
    footer = handles.ljust(40, b"\0") + MAGIC.to_bytes(8, "little")
    prefix.with_name(prefix.name + ".index").write_bytes(bytes(file) + footer)
