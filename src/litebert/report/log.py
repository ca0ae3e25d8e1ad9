"""What pages read of a run: the lines of its log, and figures of its JSON files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from litebert.common.files import read_json

Record = Mapping[str, object]
Points = tuple[tuple[float, float], ...]
"""(step, value), in the order of the steps."""


def read_if_there(path: Path) -> dict[str, object]:
    """The JSON object of a file, an empty one if there is no file yet."""
    return read_json(path) if path.is_file() else {}


def lines_with(records: Iterable[Record], key: str) -> list[Record]:
    """The lines of a log, without its events, that have a finite number under the key."""
    lines = ((line, line.get(key)) for line in records if "event" not in line)
    return [line for line, v in lines if isinstance(v, (int, float)) and math.isfinite(v)]


def points(records: Iterable[Record], key: str) -> Points:
    """(step, value) of the lines with a key."""
    return tuple((number(line, "step"), number(line, key)) for line in lines_with(records, key))


def smoothed(line: Points, num_means: int = 30) -> Points:
    """Sliding mean, so wide that about ``num_means`` of them cover the line."""
    half = len(line) // (2 * num_means)
    out = []
    for index, (step, _) in enumerate(line):
        near = line[max(0, index - half) : index + half + 1]
        out.append((step, sum(value for _, value in near) / len(near)))
    return tuple(out)


def number(record: Record, *keys: str) -> float:
    """The number at the end of a path of keys, 0 if there is none."""
    *path, last = keys
    value = mapping(record, *path).get(last)
    return float(value) if isinstance(value, (int, float)) else 0.0


def mapping(value: object, *keys: str) -> Record:
    """The JSON object at the end of a path of keys, an empty one if there is none."""
    for key in keys:
        value = mapping(value).get(key)
    return value if isinstance(value, Mapping) else {}
