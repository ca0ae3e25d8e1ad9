"""Read text of any supported file line by line, for training a tokenizer."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import COMPRESSIONS, READ_ERRORS, open_binary, plain_suffix
from litebert.common.rows import read_rows_or_errors
from litebert.text.remote import fetch, remote_url

_ROW_SUFFIXES = (".jsonl", ".ndjson", ".parquet")


def find_files(inputs: Iterable[Path]) -> list[Path]:
    """Return the files of files, folders (all below, hidden ones left out) and globs, in order.

    An address such as ``s3://bucket/*.txt`` gives local copies.
    """
    files: list[Path] = []
    for given in inputs:
        url = remote_url(given)
        if url is not None:
            found = fetch(url)
        elif given.is_dir():
            paths = (path for path in given.rglob("*") if path.is_file())
            found = sorted(path for path in paths if not _is_hidden(path.relative_to(given)))
        elif given.exists():
            found = [given]
        elif glob.has_magic(str(given)):
            names = glob.glob(str(given), recursive=True)
            found = sorted(path for path in map(Path, names) if not path.is_dir())
        else:
            raise DataError(f"input {given} does not exist")
        if not found:
            raise DataError(f"input {given} matches no file; check the path, or quote the glob")
        files.extend(found)
    return list(dict.fromkeys(files))


def total_bytes(files: Iterable[Path]) -> int | None:
    """Return how much text there is, or None where compression hides it."""
    files = list(files)
    if any(path.suffix.lower() in (*COMPRESSIONS, ".parquet") for path in files):
        return None
    return sum(path.stat().st_size for path in files)


@dataclass
class TextLines:
    """The lines of many files, counted while they are read; broken ones are left out."""

    files: list[Path]
    column: str = "text"
    num_lines: int = field(default=0, init=False)
    num_bytes: int = field(default=0, init=False)
    num_broken: int = field(default=0, init=False)
    first_broken: str = field(default="", init=False)

    def __iter__(self) -> Iterator[str]:
        for path in self.files:
            has_rows = plain_suffix(path) in _ROW_SUFFIXES
            yield from self._rows(path) if has_rows else self._text(path)

    def _text(self, path: Path) -> Iterator[str]:
        try:
            with open_binary(path) as stream:
                for number, line in enumerate(stream, start=1):
                    self.num_lines += 1
                    self.num_bytes += len(line)
                    try:
                        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                    except UnicodeDecodeError:
                        text = "\0"
                    if "\0" in text:  # binary data
                        self._count_broken(path, number)
                    else:
                        yield text
        except READ_ERRORS as error:
            raise DataError(f"{path} cannot be read: {error}") from None

    def _rows(self, path: Path) -> Iterator[str]:
        for number, row in read_rows_or_errors(path):
            if isinstance(row, DataError):
                self._count_broken(path, number)
                continue
            if self.column not in row:
                known = ", ".join(map(str, row))
                raise DataError(f"{path}:{number}: no column '{self.column}'; it has {known}")
            text = row[self.column]
            if not isinstance(text, str):
                self._count_broken(path, number)
                continue
            for line in text.splitlines():
                self.num_lines += 1
                self.num_bytes += len(line.encode(errors="replace")) + 1
                yield line

    def _count_broken(self, path: Path, number: int) -> None:
        self.num_broken += 1
        self.first_broken = self.first_broken or f"{path}:{number}"


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
