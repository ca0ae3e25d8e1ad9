"""What a task file may say, and whether it is complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from litebert.common.errors import ConfigError
from litebert.tasks.base import Kind

CustomKind = Literal[
    "classification",
    "pair_classification",
    "multi_label",
    "regression",
    "multiple_choice",
    "span_extraction",
    "token_classification",
]

_NEEDED_COLUMNS: dict[CustomKind, tuple[str, ...]] = {
    "classification": ("text", "label"),
    "pair_classification": ("text", "text_pair", "label"),
    "multi_label": ("text", "label"),
    "regression": ("text", "label"),
    "multiple_choice": ("text", "options", "label"),
    "span_extraction": ("text", "question", "answer"),
    "token_classification": ("words", "label"),
}
_WITH_LABELS = ("classification", "pair_classification", "multi_label", "token_classification")


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
    """A task of your own.

    Example:
        >>> CustomConfig("tickets", "classification", CustomFiles("train.csv", "dev.csv"),
        ...              CustomColumns(text="body", label="team"), labels=("billing", "repair"))
    """

    name: str
    """What reports call it."""
    kind: CustomKind
    """Which of the seven kinds."""
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

    @property
    def form_kind(self) -> Kind:
        """The kind without the difference between one text and two."""
        return "classification" if self.kind == "pair_classification" else self.kind

    def check(self, source: str) -> None:
        """Raise ConfigError if the kind needs something that is not there."""
        for column in _NEEDED_COLUMNS[self.kind]:
            if not getattr(self.columns, column):
                raise ConfigError(f"{source}: kind '{self.kind}' needs columns.{column}")
        if self.kind in _WITH_LABELS and len(self.labels) < 2:
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
