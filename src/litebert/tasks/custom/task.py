"""Your own task: a TOML file that names files, columns, labels and the kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.common.config import load_toml
from litebert.common.errors import ConfigError, DataError, suggestion
from litebert.common.rows import read_rows
from litebert.tasks.base import Example, Form, Prediction
from litebert.tasks.custom.config import CustomConfig
from litebert.tasks.custom.rows import RowError, parse_row, read_gold
from litebert.tasks.custom.scores import main_metric, score
from litebert.tasks.forms.choices import option_index
from litebert.tasks.prediction_files import match_predictions, read_predictions, write_json_lines
from litebert.tasks.problems import RowProblems
from litebert.tasks.task_file import TaskFile


@dataclass(frozen=True)
class CustomTask:
    """A task that a TOML file describes.

    Args:
        config: what the file says.
        folder: where the file is; the data files are looked for there.

    Example:
        >>> task = CustomTask.load(Path("examples/custom_task/classification.toml"))
        >>> task.read(task.folder, "train", RowProblems())
    """

    config: CustomConfig
    folder: Path

    eval_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ("test",)

    @classmethod
    def load(cls, path: Path) -> CustomTask:
        """Read and check a task file."""
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
        return TaskFile(
            config.name, config.form_kind, config.labels, config.max_length, config.unanswerable
        ).form()

    @property
    def main_metric(self) -> str:
        """The metric in the file, or the usual one of the kind."""
        return self.config.metric or main_metric(self.config)

    @property
    def max_length(self) -> int:
        """The length in the file."""
        return self.config.max_length

    def read(self, data: Path, split: str, problems: RowProblems) -> list[Example]:
        """Read a split: ``data`` if it is a file, else the named file there or beside the TOML."""
        path = self._file(data, split)
        training = split == "train"
        examples = []
        columns: set[str] = set()
        for index, (row, cells) in enumerate(read_rows(path)):
            columns |= cells.keys()
            try:
                example = parse_row(self.config, cells, str(index), with_gold=split != "test")
            except RowError as error:
                problems.add(path, row, error.reason, error.detail, kept=False)
                continue
            texts = (example.text, *(() if example.text_pair is None else (example.text_pair,)))
            if self.config.kind == "token_classification":
                texts = (" ".join(example.words),)
            if all(problems.check_text(path, row, text, "text", training) for text in texts):
                examples.append(example)
        if not examples:
            self._explain_empty(path, columns, problems)
        return examples

    def score(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """Return the metrics of the kind."""
        scores = score(self.config, examples, predictions)
        if self.main_metric not in scores:
            near = suggestion(self.main_metric, scores) or f" Known: {', '.join(scores)}."
            raise ConfigError(f"task {self.name}: unknown metric '{self.main_metric}'.{near}")
        return scores

    def write_predictions(
        self,
        folder: Path,
        split: str,
        examples: Sequence[Example],
        predictions: Sequence[Prediction],
    ) -> list[Path]:
        """Write JSON lines with ``id``, ``prediction`` and what the form says beside it."""
        form = self.form
        rows = [
            {"id": p.id, "prediction": self._written(p), **form.describe(e, p)}
            for e, p in zip(examples, predictions, strict=True)
        ]
        return [write_json_lines(folder / f"{split}-predictions.jsonl", rows)]

    def score_file(
        self,
        predictions: Path,
        data: Path,
        split: str,
        null_odds: Path | None,
        problems: RowProblems,
    ) -> dict[str, float]:
        """Score a file with ``id`` (row from 0) and ``prediction`` in the labels' own words.

        A number is the index of an option from 0, as :meth:`write_predictions` writes it.
        """
        examples = self.read(data, split, problems)
        values = match_predictions(examples, read_predictions(predictions), predictions, problems)
        parsed = []
        for example, value in zip(examples, values, strict=True):
            try:
                parsed.append(Prediction(example.id, self._parse_prediction(example, value)))
            except RowError as error:
                raise DataError(f"{predictions}: row {example.id}: {error}") from None
        return self.score(examples, parsed)

    def _parse_prediction(
        self, example: Example, value: object
    ) -> int | float | str | tuple[int, ...]:
        if self.config.kind == "span_extraction":
            return str(value)
        if self.config.kind == "multiple_choice" and isinstance(value, int):
            # The options may be numbers too: ours is an index, whatever they say.
            index = option_index(value, len(example.options))
            if index is not None:
                return index
        return read_gold(self.config, value, example)

    def _written(self, prediction: Prediction) -> object:
        value, labels = prediction.value, self.config.labels
        if self.config.kind in ("classification", "pair_classification"):
            assert isinstance(value, int)
            return labels[value]
        if isinstance(value, tuple) and self.config.kind == "multi_label":
            return [label for label, flag in zip(labels, value, strict=True) if flag]
        if isinstance(value, tuple):
            return [labels[tag] for tag in value]
        return value

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
        raise DataError(f"task {self.name}: {name} is neither in {data} nor in {self.folder}")

    def _explain_empty(self, path: Path, columns: set[str], problems: RowProblems) -> None:
        first = problems.problems[-1].line() if len(problems) else "the file has no rows"
        raise DataError(
            f"task {self.name}: no usable row in {path} (columns: {', '.join(sorted(columns))}); "
            f"last fault: {first}"
        )
