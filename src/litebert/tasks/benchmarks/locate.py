"""Find the file of a split in a data folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from litebert.common.errors import DataError, MissingFileError
from litebert.common.files import COMPRESSIONS


def with_compressions(name: str) -> tuple[str, ...]:
    """Return a file name with and without each compression suffix."""
    return (name, *(name + suffix for suffix in COMPRESSIONS))


def find_file(data: Path, names: Sequence[str], what: str, folders: Sequence[str] = ()) -> Path:
    """Return the first file that exists, in ``data`` itself or one of its sub-folders.

    ``names`` are best first, and compressed files are found too; if ``data`` is a file, it is taken
    as it is. A MissingFileError says that the folder is there, the file (``what``) is not.
    """
    if data.is_file():
        return data
    if not data.is_dir():
        raise DataError(f"data folder {data} does not exist")
    for folder in (data, *(data / name for name in folders)):
        for name in names:
            for candidate in with_compressions(name):
                if (folder / candidate).is_file():
                    return folder / candidate
    raise MissingFileError(f"{data} has no {what}: expected {' or '.join(names)}")
