"""Ingestion: files of any size, read once and cut into parts of whole documents.

Where a part begins and ends depends on the files alone: not on workers, nor on where reading
began, so an interrupted build goes on at the end of any part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple

from litebert.common.errors import DataError, blame, needs
from litebert.common.files import COMPRESSIONS, READ_ERRORS, open_binary, read_json
from litebert.common.limits import machine_memory
from litebert.common.rows import open_parquet, parquet_rows
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.sources import Source

LARGEST = 4
"""Times the wanted bytes of a part: a larger document is cut, a longer line left out, so that
memory stays bounded."""

_SKIP_BYTES = 1 << 20
_BINARY_BYTES = 1 << 16
_BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")

ProblemKind = Literal[
    "empty_file", "binary_file", "unreadable_file", "missing_column", "binary_line", "broken_utf8",
    "broken_json", "broken_row", "overlong_line", "document_cut",
]  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """Something in the input that was left out or changed.

    >>> Problem("broken_utf8", "a.txt", 17, "invalid start byte").describe()
    'a.txt:17: broken utf8 (invalid start byte)'
    """

    kind: ProblemKind
    path: str
    line: int
    """line, or row of a Parquet file, from 1; 0 for the file as a whole"""
    detail: str

    def describe(self) -> str:
        """Return file, line, kind and detail as one line."""
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.kind.replace('_', ' ')} ({self.detail})"


class Position(NamedTuple):
    """A place between two documents of the corpus."""

    source: int = 0
    """which source"""
    offset: int = 0
    """bytes (decompressed) or Parquet rows before the place"""
    line: int = 1
    """number of the next line"""


BEGINNING = Position()


@dataclass(frozen=True)
class Excerpt:
    """Whole documents of one source, still raw."""

    source: Source
    line: int
    """number of its first line, or row"""
    data: bytes | tuple[Mapping[str, object], ...]
    """lines as bytes, or rows"""
    num_bytes: int
    """size of its text"""
    end_offset: int
    end_line: int
    problems: tuple[Problem, ...] = ()
    ends_source: bool = False
    """nothing more is read of the source, whatever it still holds"""


@dataclass(frozen=True)
class RawPart:
    """The unit of work: excerpts of about four megabytes together."""

    index: int
    excerpts: tuple[Excerpt, ...]
    end: Position
    """where the next part begins"""
    num_bytes: int


def read_raw_parts(
    sources: Sequence[Source],
    column: str = "text",
    first_index: int = 0,
    start: Position = BEGINNING,
    part_bytes: int = PrepareConfig.part_bytes,
    group: str | None = None,
) -> Iterator[RawPart]:
    """Yield the raw parts of a corpus from part ``first_index`` on, which begins at ``start``.

    A part has half of ``part_bytes`` to four times as many. ``group`` is a second column to read.
    """
    index, excerpts, num_bytes = first_index, list[Excerpt](), 0
    end = start
    for number in range(start.source, len(sources)):
        source = sources[number]
        offset, line = (start.offset, start.line) if number == start.source else (0, 1)
        for found in _excerpts(source, column, group, offset, line, part_bytes):
            excerpts.append(found)
            num_bytes += found.num_bytes
            end = Position(number, found.end_offset, found.end_line)
            if found.ends_source:
                end = Position(number + 1)
            if num_bytes >= part_bytes // 2:
                yield RawPart(index, tuple(excerpts), end, num_bytes)
                index, excerpts, num_bytes = index + 1, [], 0
    if excerpts:
        yield RawPart(index, tuple(excerpts), end, num_bytes)


def _excerpts(
    source: Source, column: str, group: str | None, offset: int, line: int, part_bytes: int
) -> Iterator[Excerpt]:
    if source.bytes == 0:
        yield _failure(source, "empty_file", 0, "0 bytes")
        return
    if source.format == "parquet":
        yield from _parquet_excerpts(source, column, group, offset, part_bytes)
        return
    if source.format == "squad":
        yield from _squad_excerpts(source, column, offset, part_bytes)
        return
    end_line = line
    try:
        with open_binary(source.path) as stream:
            _skip(stream, offset, Path(source.path).suffix.lower() in COMPRESSIONS)
            for found in _text_excerpts(stream, source, offset, line, part_bytes):
                end_line = found.end_line
                yield found
    except READ_ERRORS as error:
        _raise_if_the_machine_failed(error)
        detail = f"{str(error) or type(error).__name__}; the rest of the file is left out"
        yield _failure(source, "unreadable_file", end_line, detail)


def _raise_if_the_machine_failed(error: Exception) -> None:
    """A full or failing disk carries an error number, a damaged file does not.

    Only the file's own damage may leave its text out: the rest must end the build.
    """
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _text_excerpts(
    stream: IO[bytes], source: Source, offset: int, line: int, part_bytes: int
) -> Iterator[Excerpt]:
    """Yield lines of plain text or JSON, cut where a document ends.

    The buffer is filled to an exact size before a cut is sought, so that the cuts depend on the
    text and on the beginning alone.
    """
    largest = LARGEST * part_bytes
    first_size = largest if source.layout == "files" else part_bytes
    buffer, size, is_fresh = b"", first_size, offset == 0
    while True:
        buffer += stream.read(max(0, size - len(buffer)))
        if is_fresh and (not buffer or b"\0" in buffer[:_BINARY_BYTES]):
            detail = "NUL bytes; if it is UTF-16, convert it to UTF-8" if buffer else "no text"
            yield _failure(source, "binary_file" if buffer else "empty_file", 0, detail)
            return
        is_fresh = False
        if len(buffer) < size:
            if buffer:
                size, end_line = len(buffer), line + buffer.count(b"\n")
                yield Excerpt(source, line, buffer, size, offset + size, end_line)
            return
        end, problems = _last_document_end(buffer, source), tuple[Problem, ...]()
        if end == 0 and size < largest:
            size = min(2 * size, largest)
            continue
        if end == 0:
            end = buffer.rfind(b"\n") + 1
            detail = f"longer than {largest:,} bytes; the rest becomes a document of its own"
            problems = (Problem("document_cut", source.path, line, detail),)
        data, num_lines = buffer[:end], buffer.count(b"\n", 0, end)
        if end == 0:
            end, buffer = _skip_line(stream, len(buffer))
            num_lines = 1
            detail = f"{end:,} bytes, more than {largest:,}; the line is left out"
            problems = (Problem("overlong_line", source.path, line, detail),)
        else:
            buffer = buffer[end:]
        yield Excerpt(source, line, data, len(data), offset + end, line + num_lines, problems)
        offset, line, size = offset + end, line + num_lines, first_size


def _last_document_end(buffer: bytes, source: Source) -> int:
    """Return where the last whole document of a buffer ends, or 0."""
    if source.format == "jsonl":
        return buffer.rfind(b"\n") + 1
    if source.layout == "files":
        return 0
    found = buffer.rfind(b"\n\n")
    if found >= 0:
        return found + 2
    # Blank lines with spaces or carriage returns: slower to find, and rare.
    return max((match.end() for match in _BLANK_LINE.finditer(buffer)), default=0)


def _skip(stream: IO[bytes], num_bytes: int, is_compressed: bool) -> None:
    """Go to an offset; a compressed stream has to be read up to it."""
    if not is_compressed:
        stream.seek(num_bytes)
        return
    while num_bytes > 0 and (data := stream.read(min(num_bytes, _SKIP_BYTES))):
        num_bytes -= len(data)


def _skip_line(stream: IO[bytes], num_bytes: int) -> tuple[int, bytes]:
    """Read past the end of a line; returns its length and what was read beyond it."""
    while data := stream.read(_SKIP_BYTES):
        end = data.find(b"\n") + 1
        if end:
            return num_bytes + end, data[end:]
        num_bytes += len(data)
    return num_bytes, b""


def _failure(source: Source, kind: ProblemKind, line: int, detail: str) -> Excerpt:
    """Report a source of which nothing more is read."""
    problem = Problem(kind, source.path, line, detail)
    return Excerpt(source, 1, b"", 0, 0, 1, (problem,), ends_source=True)


def _parquet_excerpts(
    source: Source, column: str, group: str | None, offset: int, part_bytes: int
) -> Iterator[Excerpt]:
    """Yield values of the columns; offsets are rows."""
    with needs("data", f"{source.path}: reading Parquet"):
        import pyarrow
    first_row = offset
    try:
        with open_parquet(Path(source.path)) as file:
            schema = file.schema_arrow
            columns = [column] if group is None else [column, group]
            if missing := [name for name in columns if name not in schema.names]:
                names = ", ".join(schema.names)
                yield _failure(source, "missing_column", 0, f"no '{missing[0]}' among: {names}")
                return
            rows: Iterable[Mapping[str, object]] = (
                {column: row} if isinstance(row, DataError) else row
                for row in parquet_rows(file, offset, columns)
            )
            for found in _excerpts_of_rows(source, rows, column, offset, part_bytes):
                first_row = found.end_offset
                yield found
    except (*READ_ERRORS, pyarrow.ArrowException) as error:
        _raise_if_the_machine_failed(error)
        detail = f"{' '.join(str(error).split())}; the rest of the file is left out"
        yield _failure(source, "unreadable_file", first_row + 1, detail)


def _squad_excerpts(source: Source, column: str, offset: int, part_bytes: int) -> Iterator[Excerpt]:
    """Yield the articles of a SQuAD file, their passages as paragraphs; offsets are articles."""
    try:
        with blame("the file"):
            articles = [
                "\n".join(" ".join(part["context"].split()) for part in article["paragraphs"])
                for article in read_json(source.path, machine_memory() // 2)["data"]  # type: ignore[attr-defined]
            ]
    except DataError as error:
        yield _failure(source, "broken_json", 0, f"not a SQuAD file: {error}; it is left out")
    except READ_ERRORS as error:
        _raise_if_the_machine_failed(error)
        yield _failure(source, "unreadable_file", 0, f"{error}; it is left out")
    else:
        rows = ({column: article} for article in articles[offset:])
        yield from _excerpts_of_rows(source, rows, column, offset, part_bytes)


def _excerpts_of_rows(
    source: Source,
    rows: Iterable[Mapping[str, object]],
    column: str,
    first_row: int,
    part_bytes: int,
) -> Iterator[Excerpt]:
    """Yield rows from ``first_row`` on, in excerpts of about a part each."""
    kept, size = list[Mapping[str, object]](), 0
    for last, row in enumerate(rows, start=first_row + 1):
        kept.append(row)
        text = row[column]
        size += len(text) if isinstance(text, str) else 0
        if size >= part_bytes:
            yield Excerpt(source, first_row + 1, tuple(kept), size, last, last + 1)
            first_row, kept, size = last, [], 0
    if kept:
        yield Excerpt(source, first_row + 1, tuple(kept), size, last, last + 1)
