"""The data of a fine-tuning run: examples and features of each split, and their fingerprints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import ConfigError, DataError
from litebert.tasks.base import Example, Task
from litebert.tasks.problems import RowProblems
from litebert.tasks.scoring import TaskSplit, read_splits, sample
from litebert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TaskData:
    """Everything a run reads."""

    task: Task
    tokenizer: Tokenizer
    train: TaskSplit
    evals: tuple[TaskSplit, ...]
    """splits with labels; the first one picks the best checkpoint"""
    problems: RowProblems
    max_length: int
    available: Mapping[str, int]
    """usable examples of each split, before a subset was drawn"""

    def fingerprints(self) -> dict[str, str]:
        """Hashes that say which data a run used."""
        return {
            "tokenizer": self.tokenizer.fingerprint,
            "train": self.train.fingerprint(),
            **{split.name: split.fingerprint() for split in self.evals},
        }


def load_task_data(
    task: Task,
    data: Path,
    tokenizer: Tokenizer,
    max_length: int,
    max_train_examples: int | None,
    strict: bool,
    max_scored_examples: int | None = None,
) -> TaskData:
    """Read and tokenise the training split and the splits with labels, or a part of each.

    Raises:
        ConfigError: ``data`` is one file, which would serve as training and as dev split.
        DataError: a split cannot be read, or some of its examples have no label.
    """
    if data.is_file() and data.suffix != ".toml":
        raise ConfigError(
            f"--data {data} is a file; fine-tuning needs the folder with its train and dev files"
        )
    problems = RowProblems(strict)
    usable = task.read(data, "train", problems)
    train = sample(usable, max_train_examples)
    evals = read_splits(task, data, None, problems)
    for name, found in (("train", usable), *evals):
        _require_labels(task, data, name, found)
    return TaskData(
        task,
        tokenizer,
        TaskSplit.make(task.form, "train", train, tokenizer, max_length),
        tuple(
            TaskSplit.make(
                task.form, name, sample(found, max_scored_examples, "scored"), tokenizer, max_length
            )
            for name, found in evals
        ),
        problems,
        max_length,
        {"train": len(usable), **{name: len(found) for name, found in evals}},
    )


def _require_labels(task: Task, data: Path, split: str, examples: Sequence[Example]) -> None:
    missing = [example.id for example in examples if example.gold is None]
    if missing:
        raise DataError(
            f"{data}: {len(missing):,} of {len(examples):,} examples of {task.name}'s {split} "
            f"split have no label (first: {missing[0]}); fine-tuning needs all of them"
        )
