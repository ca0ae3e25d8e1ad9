"""Your own task: its files read by the columns it names, split, scored and written."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from litebert.common.delimited import Dialect, NumberedRecords
from litebert.common.errors import ConfigError, DataError, InputError, MissingFileError, suggestion
from litebert.common.files import write_json_lines
from litebert.common.rows import RowFormat, describe_table, read_rows_or_errors, row_format
from litebert.tasks.base import Example, Examples, Form, Predictions, Scores, Value
from litebert.tasks.custom_config import CustomConfig, form_kind
from litebert.tasks.forms.kinds import FORMS
from litebert.tasks.forms.requests import UNKNOWN_LABEL, Cells, Columns, RowError, split_cell
from litebert.tasks.forms.similarity import CORPUS, EQUAL
from litebert.tasks.metrics import check_tags
from litebert.tasks.problems import RowProblems
from litebert.tasks.task_data import require_gold, score_by_row


@dataclass(frozen=True)
class CustomTask:
    """A task that a TOML file describes."""

    config: CustomConfig
    folder: Path  # of the file, with the data files
    data: Path | None = None  # another place to look for them, where labels are to be found in the files
    eval_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ("test",)

    @classmethod
    def load(cls, path: Path, data: Path | None = None) -> CustomTask:
        """Read a task file, or a table with the usual column names."""
        return cls(CustomConfig.load(path), path.parent, data)

    @property
    def name(self) -> str:
        """The name in the file."""
        return self.config.name

    @property
    def form(self) -> Form:
        """Features and decoding of the kind."""
        config, kind = self.config, form_kind(self.config.kind)
        labels = tuple(self.label_counts) if FORMS[kind].needs_labels else ()
        if kind == "token_classification":
            check_tags(labels, f"task {self.name}")
        form = FORMS[kind](labels=labels)
        return form.changed(may_be_unanswerable=config.unanswerable, score_range=config.score_range)

    @cached_property
    def label_counts(self) -> Mapping[str, int]:
        """The labels in their order; how many rows (or words) have each, where they were found."""
        if self.config.labels:
            return dict.fromkeys(self.config.labels, 0)
        path, column = self._file(self.data or self.folder, "train"), self.config.columns.label
        assert column is not None, "the task file was checked for it"
        found, num_rows, columns = Counter[str](), 0, dict[str, None]()
        for _, row in self.rows(path):
            if not isinstance(row, DataError):
                found.update(self._names_in(row.get(column)))
                columns |= dict.fromkeys(row)
                num_rows += 1
        found.pop("", None)
        if num_rows == 0:
            raise DataError(f"task {self.name}: no usable row in {path}")
        if column not in columns:
            near = suggestion(column, columns) or f" It has: {', '.join(columns) or 'none'}."
            raise DataError(f"{path} has no column '{column}'.{near}")
        if len(found) < 2 or (len(found) > 20 and len(found) > num_rows / 2):
            shown = ", ".join(map(repr, list(found)[:3]))
            raise DataError(
                f"{path}: column '{column}' has {len(found):,} different values "
                f"in {num_rows:,} rows ({shown}): not labels; check columns.label, or name `labels`"
            )
        return {name: found[name] for name in sorted(found, key=_label_order)}

    def with_labels(self, labels: Sequence[str]) -> CustomTask:
        """Return the task with a model's labels, if it names none itself."""
        if self.config.labels or not labels:
            return self
        return replace(self, config=replace(self.config, labels=tuple(labels)))

    def of_one_file(self, path: Path) -> CustomTask:
        """Return the task with one file, a part of which is dev."""
        files = replace(self.config.files, train=str(path.absolute()), dev=None)
        return replace(self, config=replace(self.config, files=files))

    @property
    def columns(self) -> dict[str, str | tuple[str, ...]]:
        """The columns that the file names."""
        return {key: value for key, value in asdict(self.config.columns).items() if value}

    @property
    def has_bare_sentences(self) -> bool:
        """Whether it learns from single sentences, in two views of each."""
        return self.config.kind == "similarity" and not self.config.columns.text_pair

    @property
    def main_metric(self) -> str:
        """The metric in the file, or the usual one of the kind; of similarity by what dev holds."""
        config = self.config
        if config.metric or config.kind != "similarity":
            return config.metric or self.form.main_metric
        judged = config.dev_columns or config.columns
        return "spearman" if judged.label else "accuracy" if judged.negatives else "ndcg_at_10"

    @property
    def max_length(self) -> int:
        """The length in the file."""
        return self.config.max_length

    def read(self, data: Path, split: str, problems: RowProblems) -> list[Example]:
        """Read a split: ``data`` if it is a file, else the named file there or beside the TOML."""
        path = self._file(data, split)
        is_cut = self.config.files.dev is None and split in ("train", "dev") and path != data
        training, form, config = split == "train", self.form, self.config
        columns = asdict(config.columns if training else config.dev_columns or config.columns)
        examples, found, num_rows, unknown = list[Example](), set[str](), 0, Counter[str]()
        for index, (number, row) in enumerate(self.rows(path)):
            if isinstance(row, DataError):
                problems.add(path, number, "malformed row", str(row))
                continue
            found |= row.keys()
            if not any(str(value).strip() for value in row.values()):
                continue  # spreadsheets end in rows of separators
            cells = Cells(row, columns, config.label_separator)
            try:
                example = form.read_row(cells, str(index))
                if is_cut and self._is_dev(example) is training:
                    continue
                num_rows += 1
                if split != "test":
                    example = replace(example, gold=form.read_gold(cells, example))
            except RowError as error:
                problems.add(path, number, error.reason, error.detail)
                if error.reason == UNKNOWN_LABEL:
                    unknown.update([error.value])
                continue
            texts = [example.text or " ".join(example.words)]
            texts += [] if example.text_pair is None else [example.text_pair]
            texts += example.options if form.kind == "similarity" else ()
            if all(problems.check_text(path, number, text, "text", training) for text in texts):
                examples.append(example)
        self._refuse_unknown(path, unknown, num_rows)
        if not examples:
            last = problems.problems[-1].line() if len(problems) else "the file has no rows"
            part = f" (its {split} part)" if is_cut else ""
            names = ", ".join(sorted(found))
            raise DataError(f"task {self.name}: no usable row in {path}{part} (columns: {names}); last fault: {last}")
        if split == "dev" and config.files.corpus is not None:
            examples += self._documents(data, columns, problems)
        return examples

    def _documents(self, data: Path, columns: Mapping[str, str | None], problems: RowProblems) -> Iterator[Example]:
        """Read texts that queries may find besides their own."""
        path = self._file(data, "corpus")
        for number, row in self.rows(path, by_name=True):
            if isinstance(row, DataError):
                problems.add(path, number, "malformed row", str(row))
                continue
            text = str(row.get(columns["text_pair"] or "", row.get("text")) or "")
            if problems.check_text(path, number, text, "text", training=True):
                yield Example(f"{CORPUS}-{number}", text, gold=EQUAL, group=CORPUS)

    def describe_files(self, data: Path) -> list[str]:
        """Say for people what was found in the training file: how it is written, its labels."""
        path = self._file(data, "train")
        lines = describe_table(path, self._format(path), self._dialect)
        if not self.config.labels and self.form.labels:
            counts = ", ".join(f"{name} {count:,}" for name, count in self.label_counts.items())
            lines.append(f"{path}: labels found: {counts}")
        return lines

    def describe_rows(self, path: Path) -> list[str]:
        """Say for people how a file of rows to predict is written."""
        return describe_table(path, self._format(path, by_name=True), self._dialect)

    def rows(self, path: Path, *, by_name: bool = False) -> NumberedRecords:
        """Read a file as the task's own are written; ``by_name``: of the format its name says."""
        return read_rows_or_errors(path, self._format(path, by_name), self._dialect)

    @property
    def _dialect(self) -> Dialect:
        return Dialect(self.config.files.delimiter, self.config.files.encoding)

    def _format(self, path: Path, by_name: bool = False) -> RowFormat:
        given = self.config.files.format
        usual: RowFormat = "conll" if self.config.kind == "token_classification" else "csv"
        return row_format(path, given or usual) if by_name or given is None else given

    def _names_in(self, value: object) -> tuple[str, ...]:
        """Return the labels in a cell."""
        if self.config.kind == "multi_label":
            return split_cell(value, self.config.label_separator)
        if self.config.kind == "token_classification":
            return split_cell(value, None)
        return ("" if value is None else str(value).strip(),)

    def _is_dev(self, example: Example) -> bool:
        """Whether a row of a file that is cut belongs to dev: a function of its text and the seed."""
        texts = [example.text or " ".join(example.words)]
        if self.config.kind not in ("span_extraction", "multiple_choice"):  # questions on a passage stay together
            texts.append(example.text_pair or "")
        files = self.config.files
        key = "\0".join([str(files.split_seed), *(" ".join(text.split()) for text in texts)])
        number = int.from_bytes(hashlib.sha256(key.encode(errors="replace")).digest()[:8])
        return number < files.dev_share * 2**64

    def _refuse_unknown(self, path: Path, unknown: Counter[str], num_rows: int) -> None:
        """Stop where many rows have other labels: the task file must be wrong."""
        total = unknown.total()
        if total <= max(10, num_rows // 10) or self.config.other_labels == "skip":
            return
        named = ", ".join(f"{label!r} {count:,}" for label, count in unknown.most_common(5))
        reason = f"labels that task {self.name} does not list ({named}); add them to `labels`"
        if self.config.kind in ("regression", "similarity"):
            reason = f"labels that are not numbers ({named}); check columns.label"
        raise DataError(f'{path}: {total:,} of {num_rows:,} rows have {reason}, or set other_labels = "skip"')

    def score(self, examples: Examples, predictions: Predictions) -> Scores:
        """Return the metrics of the kind."""
        require_gold(examples, f"task {self.name}: row", "label")
        scores = self.form.score(examples, predictions)
        if self.main_metric not in scores:
            near = suggestion(self.main_metric, scores) or f" Known: {', '.join(scores)}."
            raise ConfigError(f"task {self.name}: unknown metric '{self.main_metric}'.{near}")
        return scores

    def write_predictions(self, folder: Path, split: str, examples: Examples, predictions: Predictions) -> list[Path]:
        """Write JSON lines with ``id``, ``prediction`` and what the form says beside it."""
        form, path, pairs = self.form, folder / f"{split}-predictions.jsonl", zip(examples, predictions, strict=True)
        rows = [{"id": p.id, "prediction": form.written(p), **form.describe(e, p)} for e, p in pairs]
        write_json_lines(path, rows)
        return [path]

    def score_file(self, file: Path, data: Path, split: str, null_odds: Path | None, problems: RowProblems) -> Scores:
        """Score a file with ``id`` (row from 0) and ``prediction``: labels in their own words, options as written."""
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
        files = self.config.files
        named = {"train": files.train, "dev": files.dev or files.train, "corpus": files.corpus}
        name = named.get(split, files.test)
        if name is None:
            raise MissingFileError(f"task {self.name} names no file for its {split} split (`{split}` below [files])")
        folders = dict.fromkeys((data if data.is_dir() else self.folder, self.folder))
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
        places = " nor in ".join(str(folder.absolute()) for folder in folders)
        raise MissingFileError(f"task {self.name}: there is no {name} in {places}")


def example_of_row(form: Form, row: Mapping[str, object], columns: Columns, id: str) -> Example:
    """Make an example of a row to predict, by a task's column names, or else by the usual ones."""
    own = list(_inputs(columns))
    if not any(name in row for name in own):
        try:
            return form.parse(row, id)
        except InputError as error:
            about = f" The task's own columns: {', '.join(own)}." if own else ""
            raise InputError(f"{error}{about}") from None
    try:
        example = form.read_row(Cells(row, columns), id)
    except RowError as error:
        raise InputError(str(error)) from None
    if not (example.text or " ".join(example.words)).strip():
        raise InputError("the text is empty; write some words")
    return example


def _inputs(columns: Columns) -> Iterator[str]:
    """Yield the columns that hold what is asked, not what is right."""
    for key, names in columns.items():
        if names and key not in ("label", "answer", "answer_start"):
            yield from (names,) if isinstance(names, str) else names


def _label_order(name: str) -> tuple[object, ...]:
    """Sort numbers by value; of tags O first, and those of one type together."""
    if re.fullmatch(r"-?\d+(\.\d+)?", name):
        return (0, float(name), "")
    prefix, _, kind = name.partition("-")
    return (1, 0.0, "") if name == "O" else (2, 0.0, kind or prefix, prefix)
