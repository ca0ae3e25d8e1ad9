"""Files: written completely or not at all, read also when compressed, hashed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import IO, cast

from litebert.common.errors import DataError, InputError, needs
from litebert.common.limits import SETTINGS_MEMORY, check_regular, parse_json
from litebert.common.ownership import clear_leftovers, folder_lock, naming

COMPRESSIONS = (".gz", ".xz", ".zst")

READ_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading from :func:`open_binary` raises when a file is damaged or cut short."""


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, synced and renamed over it on success; on failure nothing changes."""
    path = Path(path)
    with naming(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _sync(temporary)
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, path)
            _sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path | str, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; on success it is synced and renamed to it.

    ``path`` must be absent or empty; with ``replace`` what is there is deleted after the rename. A second process that
    wants to write the same folder is refused; what a killed one left beside it is removed.
    """
    shown, path = Path(path), Path(path).resolve()  # a link to a folder is not replaced itself
    if not replace:
        check_free(shown)
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path.parent), folder_lock(path.parent / f".{path.name}.lock", shown):
        clear_leftovers(path.parent, path.name)
        occupied = path.is_dir() and any(path.iterdir())
        if not (occupied and replace):
            check_free(shown)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"))
        try:
            yield temporary
            umask = _umask()
            for file in temporary.rglob("*"):
                if file.is_file():  # safetensors makes files that only their owner can read
                    file.chmod(0o666 & ~umask)
                _sync(file)
            temporary.chmod(0o777 & ~umask)
            if occupied:
                aside = tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".old")
                os.replace(path, aside)
            os.replace(temporary, path)
            if occupied:
                shutil.rmtree(aside)
            _sync(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_free(path: Path | str) -> None:
    """Raise DataError if something is in the way of a new folder; an empty one is not."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise DataError(f"{path} is a file, not a folder; choose another output path")
    if path.is_dir() and any(path.iterdir()):
        raise DataError(f"{path} exists and is not empty; choose another output folder")


def near_folders(path: Path | str) -> str:
    """Return ``" Did you mean 'x' or 'y'?"`` for folders like a missing one, any part of whose path may be misspelt."""
    path = Path(path)
    found = [Path(path.anchor)]
    for part in path.parts[1 if path.anchor else 0 :]:
        step: list[Path] = []
        for base in found:
            with suppress(OSError):
                names = [item.name for item in base.iterdir() if item.is_dir()]
                near = [part] if part in names else get_close_matches(part, names, n=3)
                step += [base / name for name in near]
        if not step:
            return ""
        found = step[:3]
    return f" Did you mean {' or '.join(repr(str(folder)) for folder in found)}?"


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_plot_path(path: Path) -> None:
    """Refuse a file that cannot be drawn, before the work is done."""
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"cannot draw into {path}; name a file that ends in .png, .svg, .pdf")


def write_text(path: Path | str, text: str) -> None:
    """Write a UTF-8 file atomically; what is not a character becomes an escape, as in JSON."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path | str, value: object) -> None:
    """Write an indented JSON file atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_json_lines(path: Path | str, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object a line, atomically."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_json(path: Path | str, memory: int = SETTINGS_MEMORY) -> dict[str, object]:
    """Read a JSON object whose values fit into ``memory``; a bad or missing file is a DataError."""
    try:
        value = parse_json(read_bytes(path, memory // 6), memory)
    except READ_ERRORS as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} holds a JSON {type(value).__name__}, expected an object")
    return value


def read_bytes(path: Path | str, most: int) -> bytes:
    """Read a file, compressed or not, of at most ``most`` bytes; a longer one is a DataError."""
    too_long = DataError(f"{path} has more than {most:,} bytes: it is not what it claims to be")
    if Path(path).suffix.lower() not in COMPRESSIONS and check_regular(path) > most:
        raise too_long
    parts, size = list[bytes](), 0
    with open_binary(path) as stream:
        # In parts: to be asked for more than there is takes the memory all the same.
        while size <= most and (part := stream.read(1 << 20)):
            parts.append(part)
            size += len(part)
    if size > most:
        raise too_long
    return b"".join(parts)


def file_sizes(folder: Path) -> dict[str, int]:
    """Return every file below a folder, by its path in there, with its bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def sha256_file(path: Path | str) -> str:
    """Return the hexadecimal SHA-256 of a file, read in bounded memory."""
    if Path(path).exists():
        check_regular(path)
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def open_binary(path: Path | str) -> IO[bytes]:
    """Open a regular file for reading bytes, decompressing ``.gz``, ``.xz`` and ``.zst``."""
    check_regular(path)
    path = Path(path)
    suffix = path.suffix.lower()
    try:
        if suffix in (".gz", ".xz"):
            return cast(IO[bytes], gzip.open(path) if suffix == ".gz" else lzma.open(path))
        if suffix == ".zst":
            # Not zstandard, whose reader takes a file that was cut short for a whole one.
            with needs("data", f"{path}: reading .zst"):
                import pyarrow
            return cast(IO[bytes], io.BufferedReader(pyarrow.input_stream(path, compression="zstd"), 1 << 20))
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def plain_suffix(path: Path | str) -> str:
    """Return the suffix below a compression suffix: ``.jsonl`` for ``a.jsonl.gz``."""
    path = Path(path)
    return Path(path.stem if path.suffix.lower() in COMPRESSIONS else path).suffix.lower()


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows syncs files that are open for writing, and no folders
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
