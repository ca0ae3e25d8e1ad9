"""What is kept of finished runs, a line of JSON each: they need not be made again elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from litebert.common.config import from_dict
from litebert.common.files import write_json_lines
from litebert.common.rows import read_rows
from litebert.report.log import Points


@dataclass(frozen=True)
class Record:
    """A finished run: its measures, and what its pictures are drawn from."""

    key: str
    """hash of everything that decides the run"""
    measures: dict[str, float]
    curves: dict[str, Points] = field(default_factory=dict)
    """metric -> (tokens, value) of each evaluation"""
    layers: dict[str, object] = field(default_factory=dict)
    """Figure 1 of its model, if it was measured"""


Records = dict[str, Record]
"""By key."""


def records_path(evidence: Path) -> Path:
    """The records of the runs beside the page: what they hold is not run again."""
    return evidence.with_suffix(".jsonl")


def read_records(path: Path) -> Records:
    """The records of a file; none if there is no file."""
    rows = read_rows(path) if path.is_file() else []
    found = [from_dict(Record, row, f"{path}, line {line}") for line, row in rows]
    return {record.key: record for record in found}


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a file of records, in the order of their keys, so that two versions compare well."""
    write_json_lines(path, (asdict(one) for one in sorted(records, key=lambda one: one.key)))
