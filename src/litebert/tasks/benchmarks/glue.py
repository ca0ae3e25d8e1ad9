"""The GLUE tasks as one table: files, columns, labels, metrics, and leaderboard files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import READ_ERRORS, open_binary, write_text
from litebert.tasks import metrics
from litebert.tasks.base import Example, Examples, Form, Predictions, Scores
from litebert.tasks.forms.requests import RowError, finite_number, label_index
from litebert.tasks.forms.texts import ClassificationForm, RegressionForm, gold_and_predicted
from litebert.tasks.problems import RowProblems
from litebert.tasks.task_data import find_file, require_gold, score_by_row

_LARGEST_SCORE = 5.0  # of STS-B, from 0


@dataclass(frozen=True)
class GlueTask:
    """One row of the table below; of several header names the first that a file has is taken."""

    name: str
    folder: str  # in the GLUE root
    labels: tuple[str, ...]  # in the order of the logits; empty for regression (STS-B)
    text: tuple[str, ...]
    text_pair: tuple[str, ...]
    label: tuple[str, ...]
    metrics: tuple[str, ...]  # what the leaderboard shows; the first one picks checkpoints
    eval_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ("test",)
    leaderboard: tuple[str, ...] = ()  # file names per test split, if not that of the folder
    headerless: tuple[int, int] | None = None  # where text and label are without a header (CoLA)
    max_length: int = 512

    @property
    def form(self) -> Form:
        """Classification, or regression without labels."""
        return ClassificationForm(self.labels) if self.labels else RegressionForm()

    @property
    def main_metric(self) -> str:
        """The first metric."""
        return self.metrics[0]

    def read(self, data: Path, split: str, problems: RowProblems) -> list[Example]:
        """Read ``<split>.tsv`` from the task's folder, the GLUE root, or a given file."""
        training = split == "train"
        if training and self.name == "ax":
            raise DataError("task ax has no training data; fine-tune on mnli and evaluate that model")
        path = self._file(data, split)
        lines = read_table(path)
        _, header = next(lines, (0, []))
        if not header:
            raise DataError(f"{path} is empty; expected a table of sentences")
        text, text_pair, label = (
            next((header.index(name) for name in names if name in header), None)
            for names in (self.text, self.text_pair, self.label)
        )
        if text is None or (self.text_pair and text_pair is None):
            if self.headerless is None:
                raise _missing_column(path, self.text + self.text_pair, header)
            text, label = self.headerless
            lines = read_table(path)  # the first line is data
        elif training and label is None:
            raise _missing_column(path, self.label, header)
        is_hidden = split in self.test_splits and split not in self.eval_splits
        num_needed = 1 + max(text, text_pair or 0, label or 0)
        examples = []
        for index, (row, cells) in enumerate(lines):
            if len(cells) < num_needed:
                problems.add(path, row, "missing column", f"{len(cells)} of {num_needed} columns")
                continue
            pair = None if text_pair is None else cells[text_pair]
            texts = [cells[text]] if pair is None else [cells[text], pair]
            if not all(problems.check_text(path, row, part, "text", training) for part in texts):
                continue
            gold = None if label is None else self._parse(cells[label], _LARGEST_SCORE)
            if label is None or gold is not None or is_hidden:  # a test split needs no label
                examples.append(Example(str(index), cells[text], pair, gold=gold))
            else:
                detail = f"{cells[label]!r} is not {self._expected('a number from 0 to 5')}"
                problems.add(path, row, "unknown label", detail)
        if not examples:
            raise DataError(f"{path} has no usable row; {len(problems):,} rows are bad")
        return examples

    def score(self, examples: Examples, predictions: Predictions) -> Scores:
        """Return the leaderboard's metrics as fractions (correlations from -1 to 1)."""
        require_gold(examples, f"{self.name}: row", "label")
        gold, predicted = gold_and_predicted(examples, predictions)
        return {metric: getattr(metrics, metric)(gold, predicted) for metric in self.metrics}

    def write_predictions(self, folder: Path, split: str, examples: Examples, predictions: Predictions) -> list[Path]:
        """Write the table that the leaderboard takes, such as ``MNLI-m.tsv``."""
        files = self.leaderboard or (f"{self.folder}.tsv",)
        names = dict(zip(self.test_splits, files, strict=True))
        path = folder / names.get(split, f"{self.folder}-{split}.tsv")
        rows = ["index\tprediction\n"]
        for prediction in predictions:
            value = self.form.written(prediction)
            if split in names and isinstance(value, float):  # the leaderboard takes no score outside its range
                value = f"{min(max(value, 0.0), _LARGEST_SCORE):.3f}"
            rows.append(f"{prediction.id}\t{value}\n")
        write_text(path, "".join(rows))
        return [path]

    def score_file(self, file: Path, data: Path, split: str, null_odds: Path | None, problems: RowProblems) -> Scores:
        """Score a leaderboard table against a file with labels, row by row."""
        return score_by_row(self, file, data, split, problems, self._predicted)

    def _predicted(self, value: object, example: Example) -> int | float:
        answer = self._parse(str(value))
        if answer is None:
            raise DataError(f"prediction {value!r} for row {example.id} is not {self._expected('a number')}")
        return answer

    def _file(self, data: Path, split: str) -> Path:
        names = ("diagnostic.tsv", "AX.tsv") if self.name == "ax" else (f"{split}.tsv",)
        own = (self.folder, "diagnostic", "MNLI") if self.name == "ax" else (self.folder,)
        folders = tuple(root + name for root in ("", "glue/", "GLUE/") for name in own)
        return find_file(data, names, f"{self.name} {split} split", folders)

    def _parse(self, value: str, most: float = math.inf) -> int | float | None:
        """Return a label's index, or for regression a number, from 0 if there is a largest one."""
        try:
            found = label_index(self.labels, value) if self.labels else finite_number(value)
        except RowError:
            return None
        return found if self.labels or most == math.inf or 0 <= found <= most else None

    def _expected(self, number: str) -> str:
        return f"one of {', '.join(self.labels)}" if self.labels else number


def read_table(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, cells)`` of a tab-separated file as GLUE distributes it: quotation marks are text."""
    # Only a line feed ends a row: sentences contain other characters that Python takes for line ends.
    try:
        with open_binary(path) as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(f"{path}:{number}: not UTF-8 text: {error.reason}") from None
                if text := text.rstrip("\r\n"):
                    yield number, text.split("\t")
    except READ_ERRORS as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def _missing_column(path: Path, names: Sequence[str], header: Sequence[str]) -> DataError:
    return DataError(f"{path} has no column {' or '.join(map(repr, names))}; its header is: {', '.join(header)}")


_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")
_SINGLE: tuple[tuple[str, ...], tuple[str, ...]] = (("sentence",), ())
_PAIR = (("sentence1",), ("sentence2",))

GLUE_TASKS: dict[str, GlueTask] = {
    task.name: task
    for task in (
        GlueTask("cola", "CoLA", _BINARY, *_SINGLE, ("label",), ("matthews", "accuracy"), headerless=(3, 1)),
        GlueTask("sst2", "SST-2", _BINARY, *_SINGLE, ("label",), ("accuracy",)),
        GlueTask("mrpc", "MRPC", _BINARY, ("#1 String",), ("#2 String",), ("Quality",), ("accuracy", "f1")),
        GlueTask("stsb", "STS-B", (), *_PAIR, ("score",), ("pearson", "spearman")),
        GlueTask("qqp", "QQP", _BINARY, ("question1",), ("question2",), ("is_duplicate",), ("accuracy", "f1")),
        GlueTask("mnli", "MNLI", _NLI, *_PAIR, ("gold_label",), ("accuracy",),
                 eval_splits=("dev_matched", "dev_mismatched"), test_splits=("test_matched", "test_mismatched"),
                 leaderboard=("MNLI-m.tsv", "MNLI-mm.tsv")),
        GlueTask("qnli", "QNLI", _ENTAILMENT, ("question",), ("sentence",), ("label",), ("accuracy",)),
        GlueTask("rte", "RTE", _ENTAILMENT, *_PAIR, ("label",), ("accuracy",)),
        GlueTask("wnli", "WNLI", _BINARY, *_PAIR, ("label",), ("accuracy",)),
        GlueTask("ax", "AX", _NLI, ("sentence1", "Premise"), ("sentence2", "Hypothesis"),
                 ("gold_label", "label", "Label"), ("matthews", "accuracy"), eval_splits=("test",)),
    )
}  # fmt: skip
"""The diagnostic set ``ax`` is for models fine-tuned on MNLI and has no training data."""
