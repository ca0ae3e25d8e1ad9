"""Ingestion: files of any size, read once and cut into parts of whole documents.

Where a part begins and ends depends on the files alone: not on workers, nor on where reading began, so an interrupted
build goes on at the end of any part.
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

# Times the wanted bytes of a part: a larger document is cut, a longer line left out, so that memory stays bounded.
LARGEST = 4

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
    line: int  # line, or row of a Parquet file, from 1; 0 for the file as a whole
    detail: str

    def describe(self) -> str:
        """Return file, line, kind and detail as one line."""
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.kind.replace('_', ' ')} ({self.detail})"


class Position(NamedTuple):
    """A place between two documents of the corpus."""

    source: int = 0
    offset: int = 0  # bytes (decompressed) or Parquet rows before the place
    line: int = 1  # number of the next line


BEGINNING = Position()


@dataclass(frozen=True)
class Excerpt:
    """Whole documents of one source, still raw."""

    source: Source
    line: int  # number of its first line, or row
    data: bytes | tuple[Mapping[str, object], ...]  # lines as bytes, or rows
    num_bytes: int  # size of its text
    end: Position
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class RawPart:
    """The unit of work: excerpts of about four megabytes together."""

    index: int
    excerpts: tuple[Excerpt, ...]
    end: Position  # where the next part begins
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
    for number in range(start.source, len(sources)):
        reader = _Reader(sources[number], number, column, group, part_bytes)
        for found in reader.excerpts(start if number == start.source else Position(number)):
            excerpts.append(found)
            num_bytes += found.num_bytes
            if num_bytes >= part_bytes // 2:
                yield RawPart(index, tuple(excerpts), found.end, num_bytes)
                index, excerpts, num_bytes = index + 1, [], 0
    if excerpts:
        yield RawPart(index, tuple(excerpts), excerpts[-1].end, num_bytes)


@dataclass(frozen=True)
class _Reader:
    """One source, its place among all of them, and what is read of it."""

    source: Source
    number: int
    column: str
    group: str | None
    part_bytes: int

    def excerpts(self, start: Position) -> Iterator[Excerpt]:
        """Yield what comes after a place; the last excerpt of a damaged file says so."""
        if self.source.bytes == 0:
            yield self._failure("empty_file", 0, "0 bytes")
            return
        read = {"parquet": self._parquet, "squad": self._squad}.get(self.source.format, self._text)
        end = start
        try:
            for found in read(start):
                end = found.end
                yield found
        except READ_ERRORS as error:
            # A full or failing disk carries an error number, a damaged file does not. Only the file's own damage may
            # leave its text out: the rest must end the build.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = " ".join(str(error).split()) or type(error).__name__
            yield self._failure("unreadable_file", end.line, f"{reason}; the rest of the file is left out")

    def _failure(self, kind: ProblemKind, line: int, detail: str) -> Excerpt:
        """Report a source of which nothing more is read, whatever it still holds."""
        problem = Problem(kind, self.source.path, line, detail)
        return Excerpt(self.source, 1, b"", 0, Position(self.number + 1), (problem,))

    def _text(self, start: Position) -> Iterator[Excerpt]:
        """Yield lines of plain text or JSON, cut where a document ends.

        A cut is sought in an exact number of bytes, whatever else was read: it depends on text and beginning alone.
        """
        source, largest = self.source, LARGEST * self.part_bytes
        first_size = largest if source.layout == "files" else self.part_bytes
        buffer, size, is_fresh = b"", first_size, start.offset == 0
        with open_binary(source.path) as stream:
            _skip(stream, start.offset, Path(source.path).suffix.lower() in COMPRESSIONS)
            while True:
                buffer += stream.read(max(0, size - len(buffer)))
                if is_fresh and (not buffer or b"\0" in buffer[:_BINARY_BYTES]):
                    detail = "NUL bytes; if it is UTF-16, convert it to UTF-8" if buffer else "no text"
                    yield self._failure("binary_file" if buffer else "empty_file", 0, detail)
                    return
                is_fresh = False
                if len(buffer) < size:
                    if buffer:
                        yield self._lines(start, buffer, len(buffer), buffer.count(b"\n"))
                    return
                end, problems = self._last_document_end(buffer[:size]), list[Problem]()
                if end == 0 and size < largest:
                    size = min(2 * size, largest)
                    continue
                if end == 0:
                    end = buffer.rfind(b"\n", 0, size) + 1
                    detail = f"longer than {largest:,} bytes; the rest becomes a document of its own"
                    problems = [Problem("document_cut", source.path, start.line, detail)]
                data, num_lines, buffer = buffer[:end], buffer.count(b"\n", 0, end), buffer[end:]
                if end == 0:
                    num_lines, (end, buffer) = 1, _skip_line(stream, buffer)
                    detail = f"{end:,} bytes, more than {largest:,}; the line is left out"
                    problems = [Problem("overlong_line", source.path, start.line, detail)]
                found = self._lines(start, data, end, num_lines, problems)
                yield found
                start, size = found.end, first_size

    def _lines(self, start: Position, data: bytes, size: int, lines: int, problems: Sequence[Problem] = ()) -> Excerpt:
        """Return the excerpt of some lines, of which ``data`` is what is kept."""
        end = Position(self.number, start.offset + size, start.line + lines)
        return Excerpt(self.source, start.line, data, len(data), end, tuple(problems))

    def _last_document_end(self, buffer: bytes) -> int:
        """Return where the last whole document of a buffer ends, or 0."""
        if self.source.format == "jsonl":
            return buffer.rfind(b"\n") + 1
        if self.source.layout == "files":
            return 0
        if (found := buffer.rfind(b"\n\n")) >= 0:
            return found + 2
        # Blank lines with spaces or carriage returns: slower to find, and rare.
        return max((match.end() for match in _BLANK_LINE.finditer(buffer)), default=0)

    def _parquet(self, start: Position) -> Iterator[Excerpt]:
        """Yield values of the columns; offsets are rows."""
        with needs("data", f"{self.source.path}: reading Parquet"):
            import pyarrow
        try:
            with open_parquet(Path(self.source.path)) as file:
                names = file.schema_arrow.names
                columns = [self.column] if self.group is None else [self.column, self.group]
                if missing := [name for name in columns if name not in names]:
                    yield self._failure("missing_column", 0, f"no '{missing[0]}' among: {', '.join(names)}")
                    return
                rows = parquet_rows(file, start.offset, columns)
                named = ({self.column: row} if isinstance(row, DataError) else row for row in rows)
                yield from self._rows(named, start.offset)
        except pyarrow.ArrowException as error:
            raise OSError(str(error)) from None

    def _squad(self, start: Position) -> Iterator[Excerpt]:
        """Yield the articles of the file, their passages as paragraphs; offsets are articles."""
        try:
            with blame("the file"):
                articles = [
                    "\n".join(" ".join(part["context"].split()) for part in article["paragraphs"])
                    for article in read_json(self.source.path, machine_memory() // 2)["data"]  # type: ignore[attr-defined]
                ]
        except DataError as error:
            yield self._failure("broken_json", 0, f"not a SQuAD file: {error}; it is left out")
        else:
            yield from self._rows(({self.column: article} for article in articles[start.offset :]), start.offset)

    def _rows(self, rows: Iterable[Mapping[str, object]], first_row: int) -> Iterator[Excerpt]:
        """Yield rows from ``first_row`` on, in excerpts of about a part each."""
        kept, size = list[Mapping[str, object]](), 0
        for last, row in enumerate(rows, start=first_row + 1):
            kept.append(row)
            text = row[self.column]
            size += len(text) if isinstance(text, str) else 0
            if size >= self.part_bytes:
                yield Excerpt(self.source, first_row + 1, tuple(kept), size, Position(self.number, last, last + 1))
                first_row, kept, size = last, [], 0
        if kept:
            yield Excerpt(self.source, first_row + 1, tuple(kept), size, Position(self.number, last, last + 1))


def _skip(stream: IO[bytes], num_bytes: int, is_compressed: bool) -> None:
    """Go to an offset; a compressed stream has to be read up to it."""
    if not is_compressed:
        stream.seek(num_bytes)
        return
    while num_bytes > 0 and (data := stream.read(min(num_bytes, _SKIP_BYTES))):
        num_bytes -= len(data)


def _skip_line(stream: IO[bytes], data: bytes) -> tuple[int, bytes]:
    """Read past the end of a line that begins with ``data``; returns its length and what was read beyond it."""
    num_bytes = 0
    while data:
        if end := data.find(b"\n") + 1:
            return num_bytes + end, data[end:]
        num_bytes += len(data)
        data = stream.read(_SKIP_BYTES)
    return num_bytes, b""
