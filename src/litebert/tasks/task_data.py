"""Where the file of a split is, and predictions files: JSON, JSON lines or a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from litebert.common.errors import DataError, MissingFileError
from litebert.common.files import COMPRESSIONS, plain_suffix, read_json
from litebert.common.rows import read_rows
from litebert.tasks.base import Example, Examples, Prediction, Scores, Task, Value
from litebert.tasks.problems import RowProblems

ReadPrediction = Callable[[object, Example], Value]


def with_compressions(name: str) -> tuple[str, ...]:
    """Return a file name with and without each compression suffix."""
    return (name, *(name + suffix for suffix in COMPRESSIONS))


def find_file(data: Path, names: Sequence[str], what: str, folders: Sequence[str] = ()) -> Path:
    """Return ``data`` if it is a file, else the first that exists there or in its sub-folders, perhaps compressed."""
    if data.is_file():
        return data
    if not data.is_dir():
        raise DataError(f"data folder {data} does not exist")
    candidates = [candidate for name in names for candidate in with_compressions(name)]
    for folder in (data, *(data / name for name in folders)):
        for candidate in candidates:
            if (folder / candidate).is_file():
                return folder / candidate
    raise MissingFileError(f"{data} has no {what}: expected {' or '.join(names)}")


def read_predictions(path: Path) -> dict[str, object]:
    """Return id -> prediction of a JSON file, or of rows with columns ``index`` (or ``id``) and ``prediction``."""
    if plain_suffix(path) == ".json":
        return read_json(path)
    predictions: dict[str, object] = {}
    for number, row in read_rows(path):
        id_name = next((name for name in ("index", "id") if name in row), None)
        if id_name is None or "prediction" not in row:
            raise DataError(
                f"{path}:{number}: expected columns 'index' (or 'id') and 'prediction', found {', '.join(row)}"
            )
        predictions[str(row[id_name])] = row["prediction"]
    return predictions


def require_gold(examples: Examples, row: str, gold: str) -> None:
    """Raise DataError if an example has nothing to be scored by."""
    for example in examples:
        if example.gold is None:
            raise DataError(f"{row} {example.id} has no {gold}, so nothing to score")


def score_by_row(task: Task, file: Path, data: Path, split: str, problems: RowProblems, read: ReadPrediction) -> Scores:
    """Score a predictions file by its rows; ``read`` makes a prediction's value of one of them.

    Each example needs one, and none may be left over but those for rows that were skipped as bad.
    """
    examples, found = task.read(data, split, problems), read_predictions(file)
    known = {example.id for example in examples}
    if missing := [example.id for example in examples if example.id not in found]:
        many = f"{len(missing):,} of {len(examples):,}"
        raise DataError(f"{file}: {many} examples have no prediction (first: {missing[0]})")
    left_over = [id for id in found if id not in known]
    if len(left_over) > problems.num_skipped:
        raise DataError(
            f"{file}: {len(left_over):,} of {len(found):,} predictions are for no example "
            f"(first: {left_over[0]}); give the data that they were made for"
        )
    try:
        parsed = [Prediction(e.id, read(found[e.id], e)) for e in examples]
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    return task.score(examples, parsed)
