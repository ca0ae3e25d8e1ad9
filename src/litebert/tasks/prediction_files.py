"""Predictions files: a JSON object, JSON lines, or an ``index``/``prediction`` table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import plain_suffix, read_json, write_text
from litebert.common.rows import read_rows
from litebert.tasks.base import Example
from litebert.tasks.problems import RowProblems

_ID_NAMES = ("index", "id")


def read_predictions(path: Path) -> dict[str, object]:
    """Return id -> prediction of a ``.json``, ``.jsonl``, ``.tsv`` or ``.csv`` file.

    JSON lines and tables have a column ``index`` or ``id`` and a column ``prediction``.
    """
    if plain_suffix(path) == ".json":
        return read_json(path)
    predictions: dict[str, object] = {}
    for number, row in read_rows(path):
        id_name = next((name for name in _ID_NAMES if name in row), None)
        if id_name is None or "prediction" not in row:
            raise DataError(
                f"{path}:{number}: expected columns 'index' (or 'id') and 'prediction', "
                f"found {', '.join(row)}"
            )
        predictions[str(row[id_name])] = row["prediction"]
    return predictions


def match_predictions(
    examples: Sequence[Example],
    predictions: Mapping[str, object],
    path: Path,
    problems: RowProblems,
) -> list[object]:
    """Return the prediction of each example.

    Each must have one, and none may be left over but those for rows that were skipped as bad.
    """
    missing = [example.id for example in examples if example.id not in predictions]
    if missing:
        raise DataError(
            f"{path}: {len(missing):,} of {len(examples):,} examples have no prediction "
            f"(first: {missing[0]})"
        )
    known = {example.id for example in examples}
    left_over = [id for id in predictions if id not in known]
    if len(left_over) > problems.num_skipped:
        raise DataError(
            f"{path}: {len(left_over):,} of {len(predictions):,} predictions are for no example "
            f"(first: {left_over[0]}); give the data that they were made for"
        )
    return [predictions[example.id] for example in examples]


def write_table(path: Path, rows: Iterable[tuple[str, str]]) -> Path:
    """Write a leaderboard table with the columns ``index`` and ``prediction``."""
    lines = ["index\tprediction", *(f"{index}\t{value}" for index, value in rows)]
    write_text(path, "\n".join(lines) + "\n")
    return path
