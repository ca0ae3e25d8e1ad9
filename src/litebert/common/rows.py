"""Rows of CSV, TSV, JSON lines and Parquet files, numbered, so that an error can name its row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from litebert.common.errors import DataError
from litebert.common.files import READ_ERRORS, open_binary, plain_suffix
from litebert.common.limits import LONGEST_LINE, check_regular, parse_json

if TYPE_CHECKING:
    import pyarrow.parquet

RowFormat = Literal["csv", "tsv", "jsonl", "parquet"]
Row = dict[str, object]
NumberedRows = Iterator[tuple[int, Row | DataError]]

_BY_SUFFIX: dict[str, RowFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_TOO_LONG = f"more than {LONGEST_LINE:,} characters"


def row_format(path: Path | str) -> RowFormat:
    """Return the format that a file's name says, also below a compression suffix."""
    suffix = plain_suffix(path)
    if suffix not in _BY_SUFFIX:
        raise DataError(f"{path}: unknown format '{suffix}'; use .csv, .tsv, .jsonl or .parquet")
    return _BY_SUFFIX[suffix]


def read_rows(path: Path | str, format: RowFormat | None = None) -> Iterator[tuple[int, Row]]:
    """Yield ``(row number, columns)`` of a file with named columns, one row in memory at a time.

    Row numbers are those a person counts in an editor: the physical line on which the row ends
    for CSV, TSV and JSON lines (a header is line 1), and 1, 2, ... for Parquet. ``format``
    overrides what the name says.
    """
    for number, row in read_rows_or_errors(path, format):
        if isinstance(row, DataError):
            raise DataError(f"{path}:{number}: {row}")
        yield number, row


def read_rows_or_errors(path: Path | str, format: RowFormat | None = None) -> NumberedRows:
    """Yield what :func:`read_rows` does, with an error in the place of a row that is malformed.

    The error says what is wrong with the row, not where it stands; reading goes on after it. A
    file that cannot be read any further still raises.
    """
    kind = format or row_format(path)
    if kind == "parquet":
        yield from _parquet_rows(Path(path))
        return
    with open_binary(path) as stream:
        try:
            if kind == "jsonl":
                yield from _json_rows(stream)
            else:
                text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
                yield from _delimited_rows(path, text, kind)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 text: {error.reason}") from None
        except READ_ERRORS as error:
            raise DataError(f"{path} cannot be read: {error}") from None


def _json_rows(stream: IO[bytes]) -> NumberedRows:
    number = 0
    while line := stream.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
            yield number, DataError(f"the line has {_TOO_LONG}")
        elif line.strip():
            yield number, _json_row(line)


def _json_row(line: bytes) -> Row | DataError:
    try:
        value = parse_json(line)
    except ValueError as error:
        return DataError(f"not valid JSON: {error}")
    if not isinstance(value, dict):
        return DataError("expected a JSON object with named columns")
    return value


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise csv.Error(f"the line has {_TOO_LONG}")
        yield line


def _delimited_rows(path: Path | str, text: io.TextIOWrapper, kind: RowFormat) -> NumberedRows:
    quoted = kind == "csv"  # not in TSV, as in GLUE, where quotation marks are text
    csv.field_size_limit(LONGEST_LINE)  # the default of 128 KiB refuses long passages
    reader = csv.reader(
        _bounded_lines(text),
        delimiter="\t" if kind == "tsv" else ",",
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
    )
    try:
        header = next(reader, None)
        if header is None:
            raise DataError(f"{path} is empty; expected a header line with column names")
        for cells in reader:
            if any(cells[len(header) :]):
                remedy = f"{'quote' if quoted else 'change'} texts that hold the separator"
                counts = f"{len(cells)} cells for {len(header)} columns"
                yield reader.line_num, DataError(f"{counts}; {remedy}")
            elif cells:
                yield reader.line_num, dict(zip(header, cells, strict=False))
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: {error}") from None


def _parquet_rows(path: Path) -> NumberedRows:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise DataError(f"{path}: reading Parquet needs `pip install litebert[data]`") from None
    try:
        check_regular(path)
        with pyarrow.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            yield from enumerate(parquet_rows(file), start=1)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from None


def parquet_rows(
    file: pyarrow.parquet.ParquetFile, first_row: int = 0, columns: list[str] | None = None
) -> Iterator[Row | DataError]:
    """Yield the rows of a Parquet file from a row on; an error where a text is not usable.

    Row groups before it are not read, and of a row group no more is in memory than a page of each
    column and a few rows: one text may stand in a small file a million times.
    """
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        if first_row >= group.num_rows:
            first_row -= group.num_rows
            continue
        sizes = [group.column(i).total_uncompressed_size for i in range(group.num_columns)]
        if sum(sizes) > LONGEST_LINE * group.num_rows:
            raise OSError(f"rows of {_TOO_LONG} each")
        # A column is as large as its largest text at least.
        at_once = min(1024, max(8, (1 << 28) // max(1, *sizes)))
        for batch in file.iter_batches(at_once, row_groups=[number], columns=columns):
            yield from _batch_rows(batch.slice(first_row))
            first_row = max(0, first_row - batch.num_rows)


def _batch_rows(batch: pyarrow.RecordBatch) -> list[Row | DataError]:
    try:
        rows: list[Row] = batch.to_pylist()
    except ValueError as error:
        if batch.num_rows == 1:
            return [DataError(f"its text is not UTF-8: {error}")]
        return [row for i in range(batch.num_rows) for row in _batch_rows(batch.slice(i, 1))]
    return [
        row if _longest(row) <= LONGEST_LINE else DataError(f"a text of {_TOO_LONG}")
        for row in rows
    ]


def _longest(row: Row) -> int:
    return max((len(value) for value in row.values() if isinstance(value, str)), default=0)
