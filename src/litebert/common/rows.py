"""Rows of CSV, TSV, JSON, Parquet and CoNLL files, numbered, so that an error can name its row."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import numpy as np

from litebert.common import delimited, files
from litebert.common.config import flat_settings
from litebert.common.delimited import BROKEN, NOT_TEXT, Dialect, NumberedRecords, Record
from litebert.common.errors import DataError, needs
from litebert.common.files import READ_ERRORS, open_binary, plain_suffix
from litebert.common.limits import LONGEST_LINE, check_regular, machine_memory, parse_json

if TYPE_CHECKING:
    import pyarrow.parquet

RowFormat = Literal["csv", "tsv", "jsonl", "json", "parquet", "conll"]

ANY_DIALECT = Dialect()  # encoding and separator are found in the file

_BY_SUFFIX: dict[str, RowFormat] = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".parquet": "parquet", ".conll": "conll", ".conll03": "conll", ".iob": "conll", ".iob2": "conll", ".bio": "conll",
}  # fmt: skip
_WRITTEN_AT_ONCE = 4096
_TOO_LONG = f"more than {LONGEST_LINE:,} characters"


def row_format(path: Path | str, text: RowFormat | None = None) -> RowFormat:
    """Return the format that a file's name says, also below a compression suffix; ``text`` is that of a .txt file."""
    suffix = plain_suffix(path)
    if suffix == ".txt" and text is not None:
        return text
    if suffix in (".xlsx", ".xls", ".xlsm", ".ods"):
        raise DataError(f"{path} is a spreadsheet; save it as CSV (UTF-8) and name that file")
    if suffix not in _BY_SUFFIX:
        raise DataError(f"{path}: unknown format '{suffix}'; use .csv, .tsv, .jsonl, .json, .parquet or .conll")
    return _BY_SUFFIX[suffix]


def describe_table(path: Path, format: RowFormat, dialect: Dialect = ANY_DIALECT) -> list[str]:
    """Say for people how a table of text is written, where that is not as everybody expects it."""
    if format not in ("csv", "tsv", "conll"):
        return []
    try:
        found = delimited.find_dialect(path, dialect, format == "tsv")
    except (UnicodeError, csv.Error, *READ_ERRORS):
        return []  # who reads it says what is wrong
    about = found.describe({"csv": ",", "tsv": "\t"}.get(format, found.delimiter))
    return [f"{path}: {about}"] if about else []


def read_rows(path: Path | str, format: RowFormat | None = None) -> Iterator[tuple[int, Record]]:
    """Yield ``(row number, columns)`` of a file with named columns, one row in memory at a time.

    Row numbers are those a person counts in an editor: the physical line on which the row ends for CSV, TSV, JSON lines
    and CoNLL (a header is line 1), and 1, 2, ... for JSON and Parquet. ``format`` overrides what the name says.
    """
    for number, row in read_rows_or_errors(path, format):
        if isinstance(row, DataError):
            raise DataError(f"{path}:{number}: {row}")
        yield number, row


def read_rows_or_errors(
    path: Path | str, format: RowFormat | None = None, dialect: Dialect = ANY_DIALECT
) -> NumberedRecords:
    """Yield what :func:`read_rows` does, with an error in the place of a row that is malformed.

    The error says what is wrong with the row, not where; a file that cannot be read any further still raises.
    """
    kind = format or row_format(path)
    if kind == "parquet":
        yield from _parquet_rows(Path(path))
        return
    try:
        if kind in ("jsonl", "json"):
            dialect = Dialect(encoding=dialect.encoding or "utf-8-sig")
        else:
            dialect = delimited.find_dialect(path, dialect, kind == "tsv")
        with open_binary(path) as stream:
            text = io.TextIOWrapper(stream, dialect.encoding, "surrogateescape", newline="")
            if kind == "jsonl":
                yield from _json_rows(delimited.bounded_lines(text))
            elif kind == "json":
                yield from _json_array(path, text)
            elif kind == "conll":
                yield from delimited.conll_rows(delimited.bounded_lines(text))
            else:
                yield from delimited.delimited_rows(path, delimited.bounded_lines(text), dialect)
    except UnicodeError as error:
        name = (dialect.encoding or "utf-8").removesuffix("-sig").upper()
        raise DataError(f"{path} is not {name} text: {error}") from None
    except csv.Error as error:
        raise DataError(f"{path}: {error}") from None
    except READ_ERRORS as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def _json_rows(lines: Iterable[str]) -> NumberedRecords:
    for number, line in enumerate(lines, start=1):
        if not line.isascii() and BROKEN.search(line):
            yield number, DataError(NOT_TEXT)
        elif line.strip():
            try:
                row = _named(parse_json(line))
            except ValueError as error:
                row = DataError(f"not valid JSON: {error}")
            yield number, row


def _named(value: object) -> Record | DataError:
    if isinstance(value, dict):
        return value
    return DataError("expected a JSON object with named columns")


def _json_array(path: Path | str, text: io.TextIOWrapper) -> NumberedRecords:
    """Read a list of objects, or JSON lines that are called .json."""
    while (first := text.read(1)).isspace():
        pass
    if first != "[":
        yield from _json_rows(delimited.bounded_lines(text, first))
        return
    memory = machine_memory() // 2
    try:
        values = parse_json(first + text.read(memory // 6), memory)
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None
    assert isinstance(values, list), "it begins with a bracket"
    yield from ((number, _named(value)) for number, value in enumerate(values, start=1))


def _parquet_rows(path: Path) -> NumberedRecords:
    with needs("data", f"{path}: reading Parquet"):
        import pyarrow.parquet
    try:
        check_regular(path)
        with open_parquet(path) as file:
            yield from enumerate(parquet_rows(file), start=1)
    except (*READ_ERRORS, pyarrow.ArrowException) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from None


@contextmanager
def open_parquet(path: Path) -> Iterator[pyarrow.parquet.ParquetFile]:
    """Open a Parquet file so that a page of a column is in memory at a time, not a row group."""
    import pyarrow.parquet

    with ExitStack() as stack:
        file: Path | IO[bytes] = path
        if path.suffix.lower() in files.COMPRESSIONS:
            # Parquet is read from its end, so a compressed one is unpacked first.
            file = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stack.enter_context(open_binary(path)), file)
        yield stack.enter_context(pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False))


def parquet_rows(
    file: pyarrow.parquet.ParquetFile, first_row: int = 0, columns: list[str] | None = None
) -> Iterator[Record | DataError]:
    """Yield the rows of a Parquet file from a row on; an error where a text is not usable.

    Only a page of each column and a few rows are in memory: one text may stand in a small file a million times.
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
        at_once = min(1024, max(4, (1 << 26) // max(1, *sizes)))
        for batch in file.iter_batches(at_once, row_groups=[number], columns=columns):
            step = at_once if batch.nbytes < LONGEST_LINE else 1
            for start in range(first_row, batch.num_rows, step):
                yield from _batch_rows(batch.slice(start, step))
            first_row = max(0, first_row - batch.num_rows)
            del batch  # or it stays while the next one is read


def _batch_rows(batch: pyarrow.RecordBatch) -> list[Record | DataError]:
    try:
        rows: list[Record] = batch.to_pylist()
    except ValueError as error:
        if batch.num_rows == 1:
            return [DataError(f"its text is not UTF-8: {error}")]
        return [row for i in range(batch.num_rows) for row in _batch_rows(batch.slice(i, 1))]
    long = [any(isinstance(value, str) and len(value) > LONGEST_LINE for value in row.values()) for row in rows]
    return [DataError(f"a text of {_TOO_LONG}") if is_long else row for row, is_long in zip(rows, long, strict=True)]


def check_writable(path: Path) -> RowFormat:
    """Return the format of a table to write; a DataError says that there is none of that name."""
    kind = row_format(path)
    if kind in ("json", "conll") or path.suffix != plain_suffix(path):
        raise DataError(f"cannot write {path}; name a .csv, .tsv, .jsonl or .parquet file")
    return kind


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows as CSV, TSV, JSON lines or Parquet, as the name says; a failure leaves no file.

    CSV has a column per entry of a table (``scores.good``), lists as JSON. Rows wait in a file for all columns.
    """
    kind = check_writable(path)
    if kind == "jsonl":
        files.write_json_lines(path, rows)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=path.parent) as waiting:
        waiting.writelines(json.dumps(row) + "\n" for row in rows)

        def stored() -> Iterator[Record]:
            waiting.seek(0)
            return map(json.loads, waiting)

        with files.atomic_path(path) as temporary:
            if kind == "parquet":
                _write_parquet(temporary, stored)
            else:
                _write_delimited(temporary, stored, "\t" if kind == "tsv" else ",")


def text_lines(path: Path) -> NumberedRecords:
    """Yield each line of a plain text as a row with the column ``text``; errors as elsewhere."""
    with open_binary(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
        for number, line in enumerate(delimited.bounded_lines(text), start=1):
            broken = not line.isascii() and BROKEN.search(line)
            yield number, DataError(NOT_TEXT) if broken else {"text": line.rstrip("\r\n")}


def count_rows(path: Path) -> int:
    """Return about how many rows a file has: its lines, or what a Parquet file says."""
    if plain_suffix(path) == ".parquet":
        with open_parquet(path) as file:
            return int(file.metadata.num_rows)
    with open_binary(path) as stream:
        return sum(part.count(b"\n") for part in iter(lambda: stream.read(1 << 20), b""))


def write_vectors(path: Path, rows: Iterable[Record], size: int) -> None:
    """Write rows as they come with an ``embedding`` of ``size`` numbers, or none, as .parquet, .jsonl or .npy (NaN)."""
    if path.suffix == ".jsonl":
        files.write_json_lines(path, rows)
    elif path.suffix == ".npy":
        with files.atomic_path(path) as temporary, tempfile.TemporaryFile(dir=path.parent) as waiting:
            for row in rows:
                waiting.write(np.asarray(row.get("embedding") or [np.nan] * size, "<f4").tobytes())
            shape = waiting.tell() // (4 * size), size
            waiting.seek(0)
            with temporary.open("wb") as stream:
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                shutil.copyfileobj(waiting, stream)
    else:
        import pyarrow

        texts = [(name, pyarrow.string()) for name in ("id", "text", "error")]
        schema = pyarrow.schema([*texts, ("embedding", pyarrow.list_(pyarrow.float32()))])
        named = ({**row, "id": None if row.get("id") is None else str(row["id"])} for row in rows)
        with files.atomic_path(path) as temporary:
            _write_parts(temporary, schema, _parts(named))


def _write_delimited(path: Path, stored: Callable[[], Iterator[Record]], delimiter: str) -> None:
    columns = dict.fromkeys(name for row in stored() for name in _flat(row))
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
        writer = csv.DictWriter(stream, list(columns), restval="", delimiter=delimiter)
        writer.writeheader()
        writer.writerows(map(_flat, stored()))


def _flat(row: Record) -> Record:
    """Return a row as cells: tables become columns of their own, lists JSON."""
    cells = flat_settings(row)
    return {k: json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for k, v in cells.items()}


def _write_parquet(path: Path, stored: Callable[[], Iterator[Record]]) -> None:
    with needs("data", f"{path}: writing Parquet"):
        import pyarrow
    empty = dict.fromkeys(name for row in stored() for name in row)
    found = [pyarrow.Table.from_pylist([{**empty, **row} for row in part]).schema for part in _parts(stored())]
    schema = pyarrow.unify_schemas(found or [pyarrow.schema([])], promote_options="permissive")
    _write_parts(path, schema, _parts(stored()))


def _parts(rows: Iterator[Record]) -> Iterator[list[Record]]:
    while part := list(islice(rows, _WRITTEN_AT_ONCE)):
        yield part


def _write_parts(path: Path, schema: pyarrow.Schema, parts: Iterable[list[Record]]) -> None:
    from pyarrow import Table
    from pyarrow.parquet import ParquetWriter

    with ParquetWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(Table.from_pylist(part, schema=schema))
