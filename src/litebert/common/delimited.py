"""Tables of text as people have them: any separator and encoding, broken quotes, CoNLL columns."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from litebert.common.errors import ConfigError, DataError
from litebert.common.files import open_binary
from litebert.common.limits import LONGEST_LINE

Record = dict[str, object]
NumberedRecords = Iterator[tuple[int, Record | DataError]]

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_NO_DELIMITER = "\x1f"  # in place of a separator where the header has none: commas in the one column are text
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    **dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-32"),  # before UTF-16, whose mark it begins with
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16"),
}
_SAMPLE_BYTES = 1 << 16
_SAMPLE_RECORDS = 100
_MAX_LINES = 1000  # of one row: beyond that a quotation mark was not closed

_SEP_LINE = re.compile(r"sep=(.)\s*$", re.IGNORECASE)  # Excel's own first line
BROKEN = re.compile("[\udc80-\udcff]")
"""Bytes that are not text, as surrogateescape keeps them."""
NOT_TEXT = f"not UTF-8 text (or the encoding found), or over {LONGEST_LINE:,} characters in a line"
_SINGLE = re.compile(rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])")
_LATIN = ("cp1252", "cp1250", "cp1254", "cp1257", "cp850", "mac_roman")
"""Code pages of Latin letters: bytes beyond ASCII stand alone among others."""
_TURKISH = re.compile(rb"[\xf0\xfd\xfe\xdd\xd0\xde](?![^\xe6\xc6]*[\xe6\xc6])")
"""Letters of cp1254 that are Icelandic in cp1252, where there is no æ."""
_MARK_IN_WORD = re.compile(r"[^\W\d_](?:[^\w\s\x00-\x7f’]|ˆ)(?=[^\W\d_])")
"""What umlauts of cp1252 look like as mac_roman: no word has a sign between two letters."""
_WESTERN = str.maketrans("ğışĞİŞ", "ðýþÐÝÞ")  # where Turkish differs from the West
_TAG = re.compile(r"O|[BIESLUMW](-.+)?")


@dataclass(frozen=True)
class Dialect:
    """How a table of text is written; what is None is found in the file."""

    delimiter: str | None = None
    encoding: str | None = None
    is_quoted: bool = True  # whether quotation marks around a cell are not part of it
    sample: str = ""  # some characters beyond ASCII as they were read, to see whether the encoding is right

    def check(self, source: str) -> None:
        """Raise ConfigError if the encoding or the delimiter is not one."""
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise ConfigError(f"{source}: unknown encoding '{self.encoding}'; use utf-8, utf-16, cp1252, ...") from None
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ConfigError(f"{source}: delimiter {self.delimiter!r} should be one character")

    def describe(self, usual: str | None = ",") -> str:
        """Say what is not as everybody expects it; empty if nothing is."""
        parts = []
        if self.encoding not in ("utf-8", "utf-8-sig"):
            parts.append(f"{self.encoding} text" + (f" ({self.sample})" if self.sample else ""))
        if self.delimiter == _NO_DELIMITER != usual:
            parts.append("one column")
        elif self.delimiter is not None and self.delimiter != usual:
            parts.append(f"{_DELIMITERS.get(self.delimiter, self.delimiter)} between the cells")
        return ", ".join(parts)


def find_dialect(path: Path | str, given: Dialect, is_tsv: bool = False) -> Dialect:
    """Find what is not given: the encoding from all bytes, the separator from the first rows.

    In a .tsv file quotation marks are text, as in GLUE, unless the rows only make sense with a spreadsheet's quotes.
    """
    given.check(str(path))
    if not Path(path).is_file():  # a pipe is read once
        delimiter = given.delimiter or ("\t" if is_tsv else ",")
        return replace(given, delimiter=delimiter, encoding=given.encoding or "utf-8-sig")
    encoding, sample = (given.encoding, b"") if given.encoding else _find_encoding(path)
    shown = re.findall(r"\w*[^\x00-\x7f]\w*", sample.decode(encoding, "replace"))
    given = replace(given, encoding=encoding, sample=", ".join(dict.fromkeys(shown[:3])))
    with open_binary(path) as stream:
        head = stream.read(_SAMPLE_BYTES)
    lines = list(io.StringIO(head.decode(encoding, "ignore"), newline=""))
    lines = lines if len(head) < _SAMPLE_BYTES else lines[:-1] or lines
    if lines and (match := _SEP_LINE.match(lines[0])):
        return replace(given, delimiter=given.delimiter or match[1])
    if is_tsv:
        rows: list[list[str]] = []
        with suppress(csv.Error):  # not cleanly quoted
            rows = list(csv.reader(lines, delimiter="\t", strict=True))[:_SAMPLE_RECORDS]
        quoted = any("\n" in cell.strip() or "\t" in cell or '"' in cell for row in rows for cell in row)
        return replace(given, delimiter=given.delimiter or "\t", is_quoted=quoted)
    return replace(given, delimiter=given.delimiter or _find_delimiter(lines))


def bounded_lines(text: io.TextIOWrapper, first: str = "") -> Iterator[str]:
    """Yield the lines of a stream, of which ``first`` was read before; not text for a long one."""
    while line := text.readline(LONGEST_LINE):
        is_long = len(line) == LONGEST_LINE
        while len(line) == LONGEST_LINE:
            line = text.readline(LONGEST_LINE)
        yield "\udc80\n" if is_long else first + line
        first = ""


def delimited_rows(path: Path | str, lines: Iterable[str], dialect: Dialect) -> NumberedRecords:
    """Yield (last line, columns) of each row, an error for a bad one; a quote never closed costs its own line only."""
    header: list[str] | None = None
    for number, cells in _records(iter(lines), dialect):
        if isinstance(cells, DataError):
            yield number, cells
        elif header is None and not any(cells):
            continue  # blank lines before the header
        elif header is None:
            if number == 1 and _SEP_LINE.match((dialect.delimiter or ",").join(cells)):
                continue
            header = [cell.strip() for cell in cells]
            named = [name for name in header if name]
            if twice := sorted({name for name in named if named.count(name) > 1}):
                raise DataError(f"{path}: two columns are called {', '.join(map(repr, twice))}")
        elif any(cell.strip() for cell in cells[len(header) :]):
            remedy = f"{'quote' if dialect.is_quoted else 'change'} texts that hold the separator"
            yield number, DataError(f"{len(cells)} cells for {len(header)} columns; {remedy}")
        elif any(BROKEN.search(cell) for cell in cells if not cell.isascii()):
            yield number, DataError(NOT_TEXT)
        elif cells:
            yield number, {name: cell for name, cell in zip(header, cells, strict=False) if name}
    if header is None:
        raise DataError(f"{path} is empty; expected a header line with column names")


def conll_rows(lines: Iterable[str]) -> NumberedRecords:
    """Yield (last line, columns) of each sentence: one word a line, a blank line between two.

    ``words`` is the first column, ``tags`` the last; ``column1`` ... are all. Comments and ``-DOCSTART-`` are left out.
    """
    words, width, number = list[list[str]](), 0, 0
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in (line.strip("\r\n").split("\t") if "\t" in line else line.split())]
        is_word = len(cells) > 1 and _TAG.fullmatch(cells[-1]) and width in (0, len(cells))
        if (line.startswith("#") and not is_word) or (cells and cells[0] == "-DOCSTART-"):
            continue
        if any(cells):
            words.append(cells)
            width = width or len(cells)
        elif words:
            yield number - 1, _sentence(words)
            words = []
    if words:
        yield number, _sentence(words)


def _sentence(words: Sequence[Sequence[str]]) -> Record | DataError:
    widths = {len(cells) for cells in words}
    if len(widths) > 1:
        return DataError(f"lines of {min(widths)} and of {max(widths)} columns in one sentence")
    columns = [list(column) for column in zip(*words, strict=True)]
    if any(BROKEN.search(cell) for cells in words for cell in cells if not cell.isascii()):
        return DataError(NOT_TEXT)
    if not all(columns[0]):
        return DataError("a line without a word")
    row: Record = {f"column{number}": column for number, column in enumerate(columns, start=1)}
    return row | {"words": columns[0]} | ({"tags": columns[-1]} if len(columns) > 1 else {})


def _records(lines: Iterator[str], dialect: Dialect) -> Iterator[tuple[int, list[str] | DataError]]:
    """Yield (line on which it ends, cells); rows that quotes hold together are one record."""
    csv.field_size_limit(LONGEST_LINE)  # the default of 128 KiB refuses long passages
    delimiter, waiting, number = dialect.delimiter or ",", deque[str](), 0
    while (line := waiting.popleft() if waiting else next(lines, None)) is not None:
        number += 1
        taken = [line]
        if not dialect.is_quoted or '"' not in line:
            yield number, _cells(taken, delimiter, quoted=False)
            continue
        while True:
            try:
                yield number + len(taken) - 1, _cells(taken, delimiter, strict=True)
                number += len(taken) - 1
                break
            except csv.Error as error:
                is_open = "unexpected end" in str(error)
            may_go_on = is_open and sum(map(len, taken)) <= LONGEST_LINE
            left = _MAX_LINES - len(taken) if may_go_on else 0
            if more := _until_quote(waiting, lines, left):
                taken += more
            elif len(taken) == 1 and not is_open:  # "so" he said: quotes that are text
                yield number, _cells(taken, delimiter)
                break
            else:
                waiting.extendleft(reversed(taken[1:]))
                yield number, DataError("a quotation mark that is never closed; double or drop it")
                break


def _until_quote(waiting: deque[str], lines: Iterator[str], limit: int) -> list[str]:
    """Take lines up to the next one with a quotation mark; none if there is none within reach."""
    taken: list[str] = []
    while len(taken) < limit and (line := waiting.popleft() if waiting else next(lines, None)) is not None:
        taken.append(line)
        if '"' in line:
            return taken
    waiting.extendleft(reversed(taken))
    return []


def _cells(lines: Sequence[str], delimiter: str, *, quoted: bool = True, strict: bool = False) -> list[str]:
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    return next(csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict), [])


def _find_delimiter(lines: Sequence[str]) -> str:
    """Take the separator with which most rows have as many cells as the header, and many; one column if none does."""
    ranked = []
    for delimiter in _DELIMITERS:
        sample = _records(iter(lines), Dialect(delimiter))
        widths = [len(cells) for _, cells in sample if not isinstance(cells, DataError) and cells]
        if widths and widths[0] > 1:
            rows = widths[1 : _SAMPLE_RECORDS + 1] or widths
            ranked.append((rows.count(widths[0]) / len(rows), widths[0], delimiter))
    return max(ranked, key=lambda entry: entry[:2])[2] if ranked else _NO_DELIMITER


def _find_encoding(path: Path | str) -> tuple[str, bytes]:
    """Return the encoding of a file, UTF-8 if most lines are, and some lines beyond ASCII."""
    with open_binary(path) as stream:
        head = stream.read(4096)
        for mark, encoding in _BOMS.items():
            if head.startswith(mark):
                return encoding, b""
        if b"\0" in head:
            for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
                if zeros.count(0) > 0.6 * len(zeros):
                    return encoding, b""
            raise DataError(f"{path} is not a text file: it holds zero bytes")
    sample, num_valid, num_broken = b"", 0, 0
    with open_binary(path) as stream:
        while line := stream.readline(LONGEST_LINE):
            if not line.isascii():
                try:
                    line.decode()
                    num_valid += 1
                except UnicodeDecodeError:
                    num_broken += 1
                    sample += line[: _SAMPLE_BYTES - len(sample)]
    return ("utf-8", b"") if num_valid >= num_broken else (_recognise(path, sample), sample)


def _recognise(path: Path | str, sample: bytes) -> str:
    """Name the encoding of bytes that are not UTF-8; Western Europe's where it fits as well."""
    from charset_normalizer import from_bytes

    is_latin = 2 * len(_SINGLE.findall(sample)) > sum(byte >= 0x80 for byte in sample)
    matches = from_bytes(sample, cp_isolation=list(_LATIN) if is_latin else None)
    best = matches.best()
    if best is None:
        raise DataError(
            f"{path} is not UTF-8 text, nor text in another encoding that can be recognised; "
            "save it as UTF-8, or name its encoding (`encoding` below [files])"
        )
    # Short texts fit several code pages equally well, and some of those read the same.
    equal = [m for m in matches if (m.chaos, -m.coherence) <= (best.chaos, -best.coherence)]
    texts = [str(match).translate(_WESTERN) for match in equal if is_latin]
    for encoding in ("cp1254", "cp1252") if _TURKISH.search(sample) else ("cp1252",):
        if sample.decode(encoding, "replace").translate(_WESTERN) in texts:
            return encoding
    if best.encoding == "mac_roman" and _MARK_IN_WORD.search(str(best)):
        return best.encoding if _MARK_IN_WORD.search(sample.decode("cp1252", "replace")) else "cp1252"
    return best.encoding
