"""The task file: what a TOML file says about a task of your own; made up for a plain table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from litebert.common.config import check_range, from_dict, load_toml
from litebert.common.delimited import Dialect
from litebert.common.errors import ConfigError, DataError
from litebert.common.files import read_json
from litebert.common.rows import RowFormat, read_rows_or_errors, row_format
from litebert.tasks.forms.kinds import FORMS, Kind
from litebert.tasks.metrics import LOWER_IS_BETTER

PAIRS: Final = "pair_classification"
"""A kind of task file: classification of two texts."""

CustomKind = Literal["pair_classification", Kind]


@dataclass(frozen=True)
class CustomFiles:
    """Data files (CSV, TSV, JSON, Parquet, CoNLL; also .gz .xz .zst), beside the task file."""

    train: str
    """Rows to learn from; without ``dev`` a part of them is kept for it."""
    dev: str | None = None
    """Rows to pick the best checkpoint by, and to score."""
    test: str | None = None
    """Rows without labels to predict."""
    dev_share: float = 0.1
    """Share of ``train`` that is dev where there is no ``dev``, by a hash of each row's text: a row
    stays where it is when others are added."""
    split_seed: int = 0
    """Another number cuts ``train`` in another way."""
    corpus: str | None = None
    """Texts that the queries of dev may find besides their own (similarity), in the column of
    ``text_pair`` or ``text``."""
    format: RowFormat | None = None
    """What the files are, where their names do not say it."""
    delimiter: str | None = None
    """Between the cells of CSV; found in the file if left out."""
    encoding: str | None = None
    """Such as cp1252 or utf-16; found in the file if left out."""


@dataclass(frozen=True)
class CustomColumns:
    """Which column holds what; each kind needs some of them."""

    text: str | None = None
    """The text; the passage of multiple choice and span extraction."""
    text_pair: str | None = None
    """The second text of a pair."""
    negatives: tuple[str, ...] = ()
    """Texts that are not like ``text``, a column each (similarity)."""
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
    dev_columns: CustomColumns | None = None
    """Those of the dev and test files, where they differ (similarity)."""
    score_range: tuple[float, float] | None = None
    """Scores of texts with nothing in common and of equal ones, such as [0, 5] (similarity)."""
    labels: tuple[str, ...] = ()
    """Labels or tags, in the order of the logits; found in the training file if left out."""
    other_labels: Literal["refuse", "skip"] = "refuse"
    """What to do where many rows have a label that is not in ``labels``."""
    label_separator: str = ","
    """Between the labels of a multi-label cell that is not a list."""
    unanswerable: bool = False
    """Whether questions may have no answer (span extraction)."""
    metric: str | None = None
    """The score that picks the best checkpoint; default: the usual one of the kind."""
    max_length: int = 256
    """Longest input in tokens."""

    @classmethod
    def load(cls, path: Path) -> CustomConfig:
        """Read and check a task file, or make one for a table with the usual column names."""
        if path.suffix == ".toml":
            config = load_toml(cls, path)
        elif path.suffix == ".json" and "kind" in (values := _object(path)):
            config = from_dict(cls, values, str(path))
        else:
            config = _config_of_table(path)
        files, is_tagged = config.files, config.kind == "token_classification"
        if is_tagged and (files.format or row_format(files.train, "conll")) == "conll":
            # Its columns have names of their own.
            columns = replace(
                config.columns, words=config.columns.words or "words", label=config.columns.label or "tags"
            )
            config = replace(config, columns=columns)
        config.check(str(path))
        return config

    def check(self, source: str) -> None:
        """Raise ConfigError if the kind needs something that is not there."""
        form = FORMS[form_kind(self.kind)]
        Dialect(self.files.delimiter, self.files.encoding).check(source)
        check_range(self.files, "0 or more and less than 1", "dev_share", table="files")
        if self.metric in LOWER_IS_BETTER:
            raise ConfigError(f"{source}: of '{self.metric}' less is better; use negative_mse")
        for column in (*form.columns, *(("text_pair",) if self.kind == PAIRS else ())):
            if not getattr(self.columns, column):
                raise ConfigError(f"{source}: kind '{self.kind}' needs columns.{column}")
        if form.needs_labels and len(self.labels) == 1:
            raise ConfigError(
                f"{source}: kind '{self.kind}' needs at least two names in 'labels', found 1 "
                "(or leave it out: they are found in the training file)"
            )
        if self.kind == "similarity":
            self._check_similarity(source)
        if len(set(self.labels)) != len(self.labels):
            raise ConfigError(f"{source}: 'labels' has a name twice: {', '.join(self.labels)}")
        if self.max_length < 8:
            raise ConfigError(f"{source}: max_length {self.max_length} is too short: use 16 or more")
        check_range(self, "1 or more", "max_length", most=1 << 20)

    def _check_similarity(self, source: str) -> None:
        for columns in (self.columns, self.dev_columns or self.columns):
            if columns.label and columns.negatives:
                raise ConfigError(f"{source}: columns.label or columns.negatives, not both")
            if (columns.label or columns.negatives) and not columns.text_pair:
                raise ConfigError(f"{source}: scores and negatives need columns.text_pair")
            low, high = self.score_range or (0.0, 0.0)
            if columns.label and not low < high:
                raise ConfigError(f"{source}: columns.label needs score_range = [lowest, highest], such as [0, 5]")
        judged = self.dev_columns or self.columns
        if not judged.text_pair or (self.dev_columns and not self.files.dev):
            needed = "files.dev, with columns.text_pair (or dev_columns.text_pair)"
            raise ConfigError(f"{source}: dev needs pairs to score by: {needed}")


def form_kind(kind: CustomKind) -> Kind:
    """Return the kind without the difference between one text and two."""
    return "classification" if kind == PAIRS else kind


def _object(path: Path) -> dict[str, object]:
    """Return a JSON file's object; empty if it holds something else."""
    try:
        return read_json(path)
    except DataError:
        return {}


def _config_of_table(path: Path) -> CustomConfig:
    """Describe a table whose columns have the usual names."""
    name = path.name.split(".")[0]
    files = CustomFiles(train=path.name)
    if row_format(path) == "conll":
        return CustomConfig(name, "token_classification", files)
    rows = [row for _, row in read_rows_or_errors(path) if not isinstance(row, DataError)]
    known = {str(column).lower(): str(column) for column in (rows[0] if rows else ())}
    text, pair, label = (next((known[key] for key in keys if key in known), None) for keys in _USUAL_COLUMNS)
    if text is None or label is None:
        raise ConfigError(
            f"{path} has the columns {', '.join(known.values()) or 'none'}: call two of them text "
            f"and label, or write a task file (docs/fine-tune.md){_guess(rows)}"
        )
    columns = CustomColumns(text=text, text_pair=pair, label=label)
    values = [str(row.get(label) or "").strip() for row in rows]
    is_number = all(re.fullmatch(r"-?\d+([.,]\d+)?", value) for value in values if value)
    if is_number and any(re.search("[.,]", value) for value in values):
        return CustomConfig(name, "regression", files, columns)
    return CustomConfig(name, "classification" if pair is None else PAIRS, files, columns)


_USUAL_COLUMNS = (
    ("text", "sentence", "sentence1", "message"),
    ("text_pair", "sentence2"),
    ("label", "score", "category", "class"),
)


def _guess(rows: Sequence[Mapping[str, object]]) -> str:
    """Say which columns look like text and label: the longest, and one with few values."""
    cells = {name: [str(row.get(name)) for row in rows] for name in (rows[0] if rows else ())}
    ranked = sorted(cells, key=lambda name: -sum(map(len, cells[name])))
    few = [name for name in ranked[1:] if 2 <= len(set(cells[name])) <= len(rows) / 5]
    if not few:
        return ""
    label = min(few, key=lambda name: len(set(cells[name])))
    return f', perhaps with text = "{ranked[0]}" and label = "{label}" below [columns]'
