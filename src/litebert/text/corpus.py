"""Input text: files, folders, globs and addresses (hf://, s3://, https://), read line by line."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from litebert.common.errors import DataError, InputError
from litebert.common.files import COMPRESSIONS, READ_ERRORS, atomic_path, open_binary, plain_suffix, write_text
from litebert.common.progress import progress
from litebert.common.rows import read_rows_or_errors

_ROW_SUFFIXES = (".jsonl", ".ndjson", ".parquet")
CACHE_VARIABLE = "LITEBERT_CACHE"
_URL = re.compile(r"^(?P<protocol>[a-z][a-z0-9+.-]+):/{1,2}(?P<path>[^/].*)$")
"""A path has lost one of the two slashes; a drive of Windows has one letter."""
_MARKS = ("size", "ETag", "etag", "blob_id", "md5Hash", "LastModified", "mtime", "created")
"""What tells one version of a file from another, by kind of file system."""


def find_files(inputs: Iterable[Path]) -> list[Path]:
    """Return the files of files, folders, globs and addresses (as local copies), in order."""
    files: list[Path] = []
    for given in inputs:
        if url := remote_url(given):
            found = fetch(url)
        elif given.is_dir():
            found = sorted(path for path in given.rglob("*") if path.is_file())
            found = [p for p in found if "/." not in f"/{p.relative_to(given).as_posix()}"]
        elif given.exists():
            found = [given]
        elif glob.has_magic(str(given)):
            found = sorted(path for path in map(Path, glob.glob(str(given), recursive=True)) if not path.is_dir())
        else:
            raise DataError(f"input {given} does not exist")
        if not found:
            raise DataError(f"input {given} matches no file; check the path, or quote the glob")
        files.extend(found)
    return list(dict.fromkeys(files))


def remote_url(given: Path) -> str | None:
    """Return the address that was given in place of a path, or None."""
    found = _URL.match(str(given))
    if found is None or given.exists():
        return None
    slash = "/" if found["protocol"] == "file" else ""
    return f"{found['protocol']}://{slash}{found['path']}"


def fetch(url: str) -> list[Path]:
    """Return local copies in order; one is made again only where the file there has changed."""
    try:
        from fsspec.core import url_to_fs

        system, root = url_to_fs(url)
        found = [root] if system.isfile(root) else system.glob(root) if "*" in root else None
        names = sorted(system.find(root) if found is None else filter(system.isfile, found))
        if not names:
            raise DataError(f"input {url} matches no file; check the address, or quote the glob")
        copies = []
        with progress(f"copying {url}", len(names), "file") as bar:
            for name in names:
                copies.append(_copy(system, str(name)))
                bar.advance()
        return copies
    except ImportError as error:  # the package of this protocol
        raise InputError(f"{url}: {error}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"input {url} cannot be read: {error or type(error).__name__}") from None


def _copy(system: Any, name: str) -> Path:
    """Return the local copy of one file; its folder is a hash, because names may hold anything."""
    cache = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "litebert")
    place = hashlib.sha256(system.unstrip_protocol(name).encode()).hexdigest()[:24]
    copy = cache / "inputs" / place / Path(name).name
    info = system.info(name)
    version = "\n".join([name, *(f"{mark} {info[mark]}" for mark in _MARKS if mark in info)])
    note = copy.parent / ".version"
    if not (copy.is_file() and note.is_file() and note.read_text(encoding="utf-8") == version):
        note.unlink(missing_ok=True)
        with atomic_path(copy) as partial:
            system.get_file(name, str(partial))
        write_text(note, version)
    return copy


def total_bytes(files: list[Path]) -> int | None:
    """Return how much text there is, or None where compression hides it."""
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
            for number, text in (self._rows if plain_suffix(path) in _ROW_SUFFIXES else self._text)(path):
                if text is None:
                    self.num_broken += 1
                    self.first_broken = self.first_broken or f"{path}:{number}"
                else:
                    yield text

    def _text(self, path: Path) -> Iterator[tuple[int, str | None]]:
        try:
            with open_binary(path) as stream:
                for number, line in enumerate(stream, start=1):
                    self.num_lines += 1
                    self.num_bytes += len(line)
                    try:
                        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                    except UnicodeDecodeError:
                        text = "\0"
                    yield number, None if "\0" in text else text  # binary data
        except READ_ERRORS as error:
            raise DataError(f"{path} cannot be read: {error}") from None

    def _rows(self, path: Path) -> Iterator[tuple[int, str | None]]:
        for number, row in read_rows_or_errors(path):
            if not isinstance(row, DataError) and self.column not in row:
                raise DataError(f"{path}:{number}: no column '{self.column}'; it has {', '.join(map(str, row))}")
            text = None if isinstance(row, DataError) else row[self.column]
            if not isinstance(text, str):
                yield number, None
                continue
            for line in text.splitlines():
                self.num_lines += 1
                self.num_bytes += len(line.encode(errors="replace")) + 1
                yield number, line
