"""Your own task: a TOML file that names files, columns, labels and the kind."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from litebert.common.config import from_dict, load_toml
from litebert.common.errors import ConfigError, DataError, suggestion
from litebert.common.files import read_json, write_json_lines
from litebert.common.rows import read_rows
from litebert.tasks.base import Example, Examples, Form, Predictions, Value
from litebert.tasks.forms.kinds import FORMS, Kind
from litebert.tasks.forms.requests import Cells, RowError
from litebert.tasks.prediction_files import require_gold, score_by_row
from litebert.tasks.problems import RowProblems
from litebert.tasks.task_file import TaskFile

PAIRS: Final = "pair_classification"
"""A kind of task file: classification of two texts."""

CustomKind = Literal["pair_classification", Kind]


@dataclass(frozen=True)
class CustomFiles:
    """Data files (CSV, TSV, JSON lines, Parquet; also .gz .xz .zst), beside the task file."""

    train: str
    """Rows to learn from."""
    dev: str
    """Rows to pick the best checkpoint by, and to score."""
    test: str | None = None
    """Rows without labels to predict."""


@dataclass(frozen=True)
class CustomColumns:
    """Which column holds what; each kind needs some of them."""

    text: str | None = None
    """The text; the passage of multiple choice and span extraction."""
    text_pair: str | None = None
    """The second text of a pair."""
    question: str | None = None
    """The question of multiple choice (optional) and span extraction."""
    options: tuple[str, ...] = ()
    """The choices: one column with a list, or one column for each."""
    words: str | None = None
    """The words to tag: a list, or a text split at spaces."""
    label: str | None = None
    """The label, number, tags, set of labels, or the right option (letter, index or text)."""
    answer: str | None = None
    """The answer's text; empty for none where ``unanswerable``."""
    answer_start: str | None = None
    """The answer's first character, from 0; default: its first occurrence."""


@dataclass(frozen=True)
class CustomConfig:
    """A task of your own."""

    name: str
    """What reports call it."""
    kind: CustomKind
    """Which kind of task."""
    files: CustomFiles
    """Data files."""
    columns: CustomColumns = field(default_factory=CustomColumns)
    """Column names."""
    labels: tuple[str, ...] = ()
    """Labels or tags, in the order of the logits."""
    label_separator: str = ","
    """Between the labels of a multi-label cell that is not a list."""
    unanswerable: bool = False
    """Whether questions may have no answer (span extraction)."""
    metric: str | None = None
    """The score that picks the best checkpoint; default: the usual one of the kind."""
    max_length: int = 256
    """Longest input in tokens."""

    def check(self, source: str) -> None:
        """Raise ConfigError if the kind needs something that is not there."""
        form = FORMS[_form_kind(self.kind)]
        for column in (*form.columns, *(("text_pair",) if self.kind == PAIRS else ())):
            if not getattr(self.columns, column):
                raise ConfigError(f"{source}: kind '{self.kind}' needs columns.{column}")
        if form.needs_labels and len(self.labels) < 2:
            raise ConfigError(
                f"{source}: kind '{self.kind}' needs at least two names in 'labels', "
                f"found {len(self.labels)}"
            )
        if len(set(self.labels)) != len(self.labels):
            raise ConfigError(f"{source}: 'labels' has a name twice: {', '.join(self.labels)}")
        if self.max_length < 8:
            raise ConfigError(
                f"{source}: max_length {self.max_length} is too short; use 16 or more"
            )


def _form_kind(kind: CustomKind) -> Kind:
    """Return the kind without the difference between one text and two."""
    return "classification" if kind == PAIRS else kind


@dataclass(frozen=True)
class CustomTask:
    """A task that a TOML file describes; ``folder`` is the file's, with the data files."""

    config: CustomConfig
    folder: Path

    eval_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ("test",)

    @classmethod
    def load(cls, path: Path) -> CustomTask:
        """Read and check a task file."""
        if path.suffix == ".json":
            config = from_dict(CustomConfig, read_json(path), str(path))
        else:
            config = load_toml(CustomConfig, path)
        config.check(str(path))
        return cls(config, path.parent)

    @property
    def name(self) -> str:
        """The name in the file."""
        return self.config.name

    @property
    def form(self) -> Form:
        """Features and decoding of the kind."""
        config = self.config
        kind, labels = _form_kind(config.kind), config.labels
        return TaskFile(config.name, kind, labels, config.max_length, config.unanswerable).form()

    @property
    def main_metric(self) -> str:
        """The metric in the file, or the usual one of the kind."""
        return self.config.metric or self.form.main_metric

    @property
    def max_length(self) -> int:
        """The length in the file."""
        return self.config.max_length

    def read(self, data: Path, split: str, problems: RowProblems) -> list[Example]:
        """Read a split: ``data`` if it is a file, else the named file there or beside the TOML."""
        path = self._file(data, split)
        training, form, config = split == "train", self.form, self.config
        columns = asdict(config.columns)
        examples = []
        found: set[str] = set()
        for index, (number, row) in enumerate(read_rows(path)):
            found |= row.keys()
            cells = Cells(row, columns, config.label_separator)
            try:
                example = form.read_row(cells, str(index))
                if split != "test":
                    example = replace(example, gold=form.read_gold(cells, example))
            except RowError as error:
                problems.add(path, number, error.reason, error.detail)
                continue
            texts = [example.text or " ".join(example.words)]
            texts += [] if example.text_pair is None else [example.text_pair]
            if all(problems.check_text(path, number, text, "text", training) for text in texts):
                examples.append(example)
        if not examples:
            last = problems.problems[-1].line() if len(problems) else "the file has no rows"
            raise DataError(
                f"task {self.name}: no usable row in {path} (columns: {', '.join(sorted(found))}); "
                f"last fault: {last}"
            )
        return examples

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return the metrics of the kind."""
        require_gold(examples, f"task {self.name}: row", "label")
        scores = self.form.score(examples, predictions)
        if self.main_metric not in scores:
            near = suggestion(self.main_metric, scores) or f" Known: {', '.join(scores)}."
            raise ConfigError(f"task {self.name}: unknown metric '{self.main_metric}'.{near}")
        return scores

    def write_predictions(
        self, folder: Path, split: str, examples: Examples, predictions: Predictions
    ) -> list[Path]:
        """Write JSON lines with ``id``, ``prediction`` and what the form says beside it."""
        form = self.form
        rows = [
            {"id": p.id, "prediction": form.written(p), **form.describe(e, p)}
            for e, p in zip(examples, predictions, strict=True)
        ]
        path = folder / f"{split}-predictions.jsonl"
        write_json_lines(path, rows)
        return [path]

    def score_file(
        self, file: Path, data: Path, split: str, null_odds: Path | None, problems: RowProblems
    ) -> dict[str, float]:
        """Score a file with ``id`` (row from 0) and ``prediction`` in the labels' own words.

        A number is the index of an option from 0, as :meth:`write_predictions` writes it.
        """
        form, separator = self.form, self.config.label_separator

        def read(value: object, example: Example) -> Value:
            try:
                return form.read_prediction(value, example, separator)
            except RowError as error:
                raise DataError(f"row {example.id}: {error}") from None

        return score_by_row(self, file, data, split, problems, read)

    def _file(self, data: Path, split: str) -> Path:
        if data.is_file() and data.suffix != ".toml":
            return data
        name = {"train": self.config.files.train, "dev": self.config.files.dev}.get(
            split, self.config.files.test
        )
        if name is None:
            raise DataError(f"task {self.name} names no file for its {split} split")
        for folder in (data, self.folder):
            if (folder / name).is_file():
                return folder / name
        places = dict.fromkeys(str(folder.absolute()) for folder in (data, self.folder))
        raise DataError(
            f"task {self.name}: the {split} file {name} is not in {' or '.join(places)}; correct "
            f"files.{split} in the task file, or give the folder as --data"
        )
