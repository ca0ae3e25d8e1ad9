"""Assembly: finished parts become shards, without duplicates, the dev split apart."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from litebert.common.config import from_dict, to_dict
from litebert.common.errors import blame
from litebert.common.files import read_json, write_json, write_json_lines
from litebert.data.corpus.build import PROBLEMS, BuildFolder
from litebert.data.corpus.ingest import Problem
from litebert.data.corpus.parts import read_hashes, read_part
from litebert.data.corpus.shards import Documents, cut_shards, shard_path, write_shard
from litebert.text.coverage import Coverage

_DROPPED = "dropped.npy"
_NAMED_PROBLEMS = 10_000

PARTITION_RECORDS = 1 << 21  # Documents whose hashes are sorted together: about 150 MB of memory.
_MAX_PARTITIONS = 512
_RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("document", "<i8")])


@dataclass(frozen=True)
class PartRange:
    """Consecutive parts that make one train shard."""

    first_part: int
    last_part: int  # exclusive


@dataclass
class Assembly:
    """How parts become shards, and the counts that are lost with the parts."""

    first_documents: tuple[int, ...]  # number of each part's first document, and of all documents at the end
    duplicate_documents: int
    groups: tuple[PartRange, ...] = ()
    text_bytes: int = 0
    train_documents: int = 0
    empty_documents: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    coverage: tuple[int, ...] = (0, 0)  # tokens that count, and those that the vocabulary lacks


def begin_assembly(build: BuildFolder, num_parts: int, dedup: bool, shard_tokens: int) -> Assembly:
    """Find duplicates, write dev shards, plan the train shards; the plan is stored last of all."""
    if build.assembly.is_file():
        return from_dict(Assembly, read_json(build.assembly), str(build.assembly))
    parts = [build.part(index) for index in range(num_parts)]
    first_documents = [0, *accumulate(len(read_hashes(path)) for path in parts)]
    num_duplicates = _mark_duplicates(build, parts, first_documents[-1]) if dedup else 0
    assembly = Assembly(tuple(first_documents), num_duplicates)
    train_tokens, problems, named = list[int](), Counter[str](), list[Problem]()

    def dev_documents() -> Iterator[Documents]:
        for path, first in zip(parts, first_documents, strict=False):
            documents, is_dev, summary = read_part(path)
            keep = _kept(build, first, len(is_dev))
            is_train = keep & ~is_dev
            train_tokens.append(int(documents.document_tokens[is_train].sum()))
            problems.update(summary.problem_counts)
            named.extend(summary.problems[: _NAMED_PROBLEMS - len(named)])
            assembly.train_documents += int(is_train.sum())
            assembly.text_bytes += summary.text_bytes
            assembly.empty_documents += summary.empty_documents
            assembly.coverage = astuple(Coverage(*assembly.coverage) + Coverage(*summary.coverage))
            yield documents.select(keep & is_dev)

    for index, shard in enumerate(cut_shards(dev_documents(), shard_tokens)):
        write_shard(shard_path(build.out, "dev", index), shard)
    write_json_lines(build.out / PROBLEMS, map(asdict, named))
    assembly.groups = tuple(_groups(train_tokens, shard_tokens))
    assembly.problems = dict(sorted(problems.items()))
    write_json(build.assembly, to_dict(assembly))
    return assembly


def write_train_shards(build: BuildFolder, assembly: Assembly) -> Iterator[int]:
    """Join parts to those train shards that are missing, and remove them; yields shard numbers."""
    for index, group in enumerate(assembly.groups):
        path = shard_path(build.out, "train", index)
        numbers = range(group.first_part, group.last_part)
        if not path.with_suffix(".idx").is_file():  # it is written after the .bin
            selected: list[Documents] = []
            for number in numbers:
                documents, is_dev, _ = read_part(build.part(number))
                keep = _kept(build, assembly.first_documents[number], len(is_dev))
                selected.append(documents.select(keep & ~is_dev))
            write_shard(path, Documents.join(selected))
        for number in numbers:
            build.part(number).unlink(missing_ok=True)
        yield index


def _mark_duplicates(build: BuildFolder, parts: Sequence[Path], num_documents: int) -> int:
    """Write which documents are duplicates, bool [D], and return how many."""
    if num_documents == 0:  # nothing can be mapped
        return 0
    # On disk: for thousands of millions of documents even one byte each is too much memory.
    dropped = np.lib.format.open_memmap(build.work / _DROPPED, "w+", np.bool_, (num_documents,))
    num_duplicates = 0
    for numbers in find_duplicates(map(read_hashes, parts), num_documents, build.work / "hashes"):
        dropped[numbers] = True
        num_duplicates += len(numbers)
    dropped.flush()
    return num_duplicates


def _kept(build: BuildFolder, first: int, number: int) -> NDArray[np.bool_]:
    """Return which of ``number`` documents are not duplicates, bool [number]."""
    path = build.work / _DROPPED
    if number == 0 or not path.is_file():
        return np.ones(number, np.bool_)
    with blame(path):
        dropped = np.load(path, mmap_mode="r", allow_pickle=False)
    return cast(NDArray[np.bool_], ~dropped[first : first + number])


def _groups(tokens_of_parts: Sequence[int], shard_tokens: int) -> Iterator[PartRange]:
    """Cut between parts, so that one can be removed once the shard that it fills is there."""
    first = tokens = 0
    for index, num_tokens in enumerate(tokens_of_parts, start=1):
        tokens += num_tokens
        if tokens >= shard_tokens or (index == len(tokens_of_parts) and tokens):
            yield PartRange(first, index)
            first, tokens = index, 0


def find_duplicates(
    hashes: Iterable[NDArray[np.uint64]], num_documents: int, spill: Path, partition_records: int = PARTITION_RECORDS
) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers, int64 [k], of all documents that repeat an earlier one; ``hashes`` are uint64 [n, 2].

    Equal ones fall into the same partition, a file of the folder ``spill``, so each is resolved on its own.
    """
    num_partitions = min(_MAX_PARTITIONS, -(-num_documents // partition_records))
    shutil.rmtree(spill, ignore_errors=True)
    spill.mkdir(parents=True)
    paths, first = [spill / f"{index:03d}" for index in range(num_partitions)], 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for array in hashes:
            records = np.empty(len(array), _RECORD)
            records["high"], records["low"] = array[:, 0], array[:, 1]
            records["document"] = np.arange(first, first + len(array))
            first += len(array)
            partition = records["low"] % np.uint64(num_partitions)
            for index in np.unique(partition):
                files[int(index)].write(records[partition == index].tobytes())
    for path in paths:
        records = np.fromfile(path, _RECORD)
        records = records[np.lexsort((records["document"], records["low"], records["high"]))]
        is_repeated = (records["high"][1:] == records["high"][:-1]) & (records["low"][1:] == records["low"][:-1])
        yield records["document"][1:][is_repeated].astype(np.int64)
    shutil.rmtree(spill)
