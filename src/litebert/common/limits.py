"""Bounds, looked at before memory is taken, for a file may be damaged or hostile: regular files, JSON that fits."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

from litebert.common.errors import DataError

STANDARD_INPUT = "/dev/stdin"
LONGEST_LINE = 1 << 24
"""Characters of a line or cell; longer ones are bad rows. The longest books have a third of it."""
SETTINGS_MEMORY = 1 << 29
"""Most memory for the values of a JSON file of settings; real ones need a hundredth of it."""

_DEEPEST_JSON = 100
_MOST_DIGITS = 300
_BYTES_PER_VALUE = 100
"""Of a Python object in a list or dict; the text counts six times: as bytes, up to four a character, and strings."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    **dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device"),
}


def check_regular(path: Path | str) -> int:
    """Return the size of a regular file; others are a DataError: a pipe or device may never end, but stdin is meant."""
    if str(path) == STANDARD_INPUT:
        return 0
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except ValueError as error:  # a zero character in the name
        raise DataError(f"{str(path)!r} is not a file name: {error}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
        raise DataError(f"{path} is {kind}; copy the content to a file and name that")
    return status.st_size


def parse_json(data: bytes | str, memory: int = SETTINGS_MEMORY) -> object:
    """Parse JSON whose values fit into ``memory`` bytes; ValueError says what is wrong."""
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    num_containers = text.count("[") + text.count("{")
    needed = 6 * len(text) + _BYTES_PER_VALUE * (num_containers + text.count(","))
    if needed > memory:
        raise ValueError(f"its values need {needed:,} bytes of memory, more than {memory:,}")
    try:
        value: object = json.loads(text, parse_int=_integer)
        if num_containers > _DEEPEST_JSON and not _is_shallow(value, _DEEPEST_JSON):
            raise RecursionError
    except RecursionError:
        raise ValueError(f"more than {_DEEPEST_JSON} brackets inside each other") from None
    return value


def machine_memory() -> int:
    """Bytes of memory that this machine has, or the container that this process is in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            total = min(total, int(Path(path).read_text()))
    return total


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:  # it would overflow wherever it meets a float
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _is_shallow(value: object, depth: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in value)
