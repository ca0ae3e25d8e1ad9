"""Folders are owned: one writer at a time, nothing of others overwritten, leftovers removed."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.progress import say

LOCK_FILE = ".lock"  # in a folder that a command fills step by step; it is gone when the command ends
Inputs = Iterable[tuple[str, Path | str | None]]  # what a command reads, each with the flag that names it

_HIDDEN = re.compile(r"\.(?P<name>.+)\.(?:(?P<random>[a-z0-9_]{8})\.(?P<kind>tmp|old)|lock)|\.lock")
"""Names that only this package gives: half-written files and folders, and locks."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_WAIT_S = 1.0  # a process that was just killed may take a moment to let go
_REPORT, _REPORT_S = "report.html", 60.0
"""Reports are written beside a run that goes on: only an old half-written one is a leftover."""
_SHOWN = 5


@contextmanager
def owned_folder(
    out: Path, is_ours: Callable[[Path], bool], inputs: Inputs = (), early: Collection[str] = ()
) -> Iterator[None]:
    """Hold a folder that a command fills step by step, alone; it is made if need be, and removed if it stays empty.

    Unless ``is_ours`` says that an earlier call of the command made it, it must hold nothing but ``early``, what is
    written before that can be told. Nothing of ``inputs``, what the command reads, may lie in it.
    """
    keep_inputs(out, inputs)
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file; choose another --out")
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    out.mkdir(parents=True, exist_ok=True)
    try:
        with folder_lock(out / LOCK_FILE, out):
            strangers = [p for p in sorted(out.iterdir()) if p.name not in early and not _HIDDEN.fullmatch(p.name)]
            if not is_ours(out) and strangers:
                names = ", ".join(path.name + "/" * path.is_dir() for path in strangers[:_SHOWN])
                more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
                raise DataError(
                    f"{out} holds files that are not of such a folder: {names}{more}; nothing was changed: choose "
                    "another --out, or move them away"
                )
            clear_leftovers(out)
            yield
    finally:
        with suppress(OSError):  # not empty
            for folder in made:
                folder.rmdir()


@contextmanager
def folder_lock(lock: Path, folder: Path, wait_s: float = _WAIT_S) -> Iterator[None]:
    """Hold a lock file, which is removed at the end; DataError if another process has it."""
    from filelock import FileLock, Timeout

    held = FileLock(lock, timeout=wait_s)
    try:
        with naming(folder):
            held.acquire()
    except Timeout:
        remedy = "wait until it has finished, or choose another output folder"
        raise DataError(f"another litebert process is writing to {folder}; {remedy}") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        say(f"{folder}: its disk has no file locks; start one process at a time")
        yield
        return
    try:
        yield
    finally:
        # Before it is released: filelock takes no lock on a file that has lost its name.
        with suppress(OSError):
            lock.unlink()
        held.release()


def keep_inputs(out: Path | str, inputs: Inputs) -> None:
    """Raise DataError if something that is read, and exists, is the output or lies inside it; links are followed."""
    target = _real(out)
    for flag, source, value in _paths(inputs):
        if source.exists() and target in (source, *source.parents):
            place = "the output" if source == target else f"inside the output {out}"
            raise DataError(f"{flag} {value} is {place}: what is read must not be overwritten; choose another output")


def keep_files(target: Path | str, inputs: Inputs) -> None:
    """Raise DataError if what is written beside other things (a table, a picture) is read, or lies in what is read."""
    place = _real(target)
    for flag, source, value in _paths(inputs):
        if source in (place, *place.parents):
            problem = f"is part of what is read ({flag} {value}), which must not be overwritten"
            raise DataError(f"{target} {problem}; choose another output")


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left half written in a folder, or of one ``name`` in it; the caller holds its lock.

    A whole folder that had been moved aside for a new one that never came is put back.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _HIDDEN.fullmatch(path.name)
        if match is None or match["name"] is None or name not in (None, match["name"]):
            continue
        target, kind = folder / match["name"], match["kind"]
        if name is None and (path.is_dir() or kind is None):
            # Another command may be writing a folder of its own here, under its own lock.
            with suppress(DataError), folder_lock(folder / f".{target.name}.lock", path, wait_s=0):
                _clear(path, target, kind)
        elif kind and (target.name != _REPORT or time.time() - path.stat().st_mtime > _REPORT_S):
            _clear(path, target, kind)


@contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Let an error of the system name the folder where it names a temporary file or a lock."""
    try:
        yield
    except OSError as error:
        names = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if name]
        if not any(_HIDDEN.fullmatch(part) for name in names for part in name.parts):
            raise
        raise OSError(error.errno, error.strerror, str(folder)) from error


def _clear(path: Path, target: Path, kind: str | None) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
    elif kind == "old" and any(path.iterdir()) and not target.exists():
        os.replace(path, target)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _paths(inputs: Inputs) -> list[tuple[str, Path, Path | str]]:
    """Flag, real path and path as given of the inputs that are given."""
    return [(flag, _real(value), value) for flag, value in inputs if value is not None]


def _real(path: Path | str) -> Path:
    """A path without links; one that leads to itself stays as it is, and its reader refuses it."""
    return Path(os.path.realpath(Path(path).expanduser()))
