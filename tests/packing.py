"""Bytes compressed as a file's suffix says."""

from __future__ import annotations

import gzip
import lzma

import zstandard


def compressed(data: bytes, suffix: str) -> bytes:
    """Compress for ``.gz``, ``.xz`` or ``.zst``; an empty suffix leaves the bytes as they are."""
    if suffix == ".gz":
        return gzip.compress(data)
    if suffix == ".xz":
        return lzma.compress(data)
    return bytes(zstandard.compress(data)) if suffix else data
