"""Deduplication: finds repeated documents by hash, in memory that does not grow with the corpus."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PARTITION_RECORDS = 1 << 21
"""Documents whose hashes are sorted together: about 150 MB of memory."""

_MAX_PARTITIONS = 512
_RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("document", "<i8")])


def find_duplicates(
    hashes: Iterable[NDArray[np.uint64]],
    num_documents: int,
    spill_folder: Path,
    partition_records: int = PARTITION_RECORDS,
) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of all documents that repeat an earlier one.

    Equal hashes fall into the same partition, so each partition is resolved on its own. Only one
    is in memory at a time; the others wait in files.

    Args:
        hashes: 128-bit hashes of consecutive documents, in chunks of uint64 [n, 2].
        num_documents: how many there are in all.
        spill_folder: made and removed again; not used if one partition is enough.
        partition_records: hashes in a partition, about.

    Yields:
        Document numbers, int64 [k], each once.
    """
    num_partitions = min(_MAX_PARTITIONS, -(-num_documents // partition_records))
    records = _numbered(hashes)
    if num_partitions <= 1:
        chunks = list(records)
        if chunks:
            yield _repeated(np.concatenate(chunks))
        return
    shutil.rmtree(spill_folder, ignore_errors=True)
    spill_folder.mkdir(parents=True)
    files = [(spill_folder / f"{i:03d}").open("wb") for i in range(num_partitions)]
    try:
        for chunk in records:
            partition = chunk["low"] % np.uint64(num_partitions)
            for index in np.unique(partition):
                files[int(index)].write(chunk[partition == index].tobytes())
    finally:
        for file in files:
            file.close()
    for file in files:
        yield _repeated(np.fromfile(file.name, _RECORD))
    shutil.rmtree(spill_folder)


def _numbered(hashes: Iterable[NDArray[np.uint64]]) -> Iterator[NDArray[np.void]]:
    first = 0
    for chunk in hashes:
        records = np.empty(len(chunk), _RECORD)
        records["high"], records["low"] = chunk[:, 0], chunk[:, 1]
        records["document"] = np.arange(first, first + len(chunk))
        first += len(chunk)
        yield records


def _repeated(records: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the documents of records whose hash occurs with a smaller document number."""
    order = np.lexsort((records["document"], records["low"], records["high"]))
    high, low = records["high"][order], records["low"][order]
    is_repeated = np.zeros(len(records), np.bool_)
    is_repeated[1:] = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    return records["document"][order][is_repeated].astype(np.int64)
