"""Rows of CSV, TSV, JSON lines and Parquet files, numbered, so that an error can name its row."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from litebert.common.errors import DataError, install_command
from litebert.common.files import READ_ERRORS, open_binary, plain_suffix

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
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            if kind == "jsonl":
                yield from _json_rows(text)
            else:
                yield from _delimited_rows(path, text, kind)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 text: {error.reason}") from None
        except READ_ERRORS as error:
            raise DataError(f"{path} cannot be read: {error}") from None


def _json_rows(text: io.TextIOWrapper) -> NumberedRows:
    for number, line in enumerate(text, start=1):
        if line.strip():
            yield number, _json_row(line)


def _json_row(line: str) -> Row | DataError:
    try:
        value = json.loads(line)
    except ValueError as error:
        return DataError(f"not valid JSON: {error}")
    except RecursionError:
        return DataError("not usable JSON: too many brackets inside each other")
    if not isinstance(value, dict):
        return DataError("expected a JSON object with named columns")
    return value


def _delimited_rows(path: Path | str, text: io.TextIOWrapper, kind: RowFormat) -> NumberedRows:
    quoted = kind == "csv"  # not in TSV, as in GLUE, where quotation marks are text
    csv.field_size_limit(1 << 30)  # the default of 128 KiB refuses long passages
    reader = csv.reader(
        text,
        delimiter="\t" if kind == "tsv" else ",",
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
    )
    header = next(reader, None)
    if header is None:
        raise DataError(f"{path} is empty; expected a header line with column names")
    try:
        for cells in reader:
            if any(cells[len(header) :]):
                remedy = f"{'quote' if quoted else 'change'} texts that hold the separator"
                counts = f"{len(cells)} cells for {len(header)} columns"
                yield reader.line_num, DataError(f"{counts}; {remedy}")
            elif cells:
                yield reader.line_num, dict(zip(header, cells, strict=False))
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: {error}") from None


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise DataError(f"{path}: reading Parquet needs {install_command('data')}") from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
        number = 0
        for batch in file.iter_batches(batch_size=1024):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from None
