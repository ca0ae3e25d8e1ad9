"""The data of a fine-tuning run: examples and features of each split, and their fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from litebert.common.errors import ConfigError, DataError
from litebert.common.rng import rng
from litebert.tasks.base import Example, Feature, Task
from litebert.tasks.problems import RowProblems
from litebert.tasks.scoring import read_splits
from litebert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TaskSplit:
    """Examples with their model inputs.

    Example:
        >>> split = TaskSplit.make(task, "dev", examples, tokenizer, max_length=128)
        >>> len(split.features) >= len(split.examples)
        True
    """

    name: str
    examples: Sequence[Example]
    features: Sequence[Feature]

    @classmethod
    def make(
        cls,
        task: Task,
        name: str,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        max_length: int,
    ) -> TaskSplit:
        """Tokenise examples."""
        return cls(name, examples, task.form.features(examples, tokenizer, max_length))

    def sample(self, num_examples: int | None) -> TaskSplit:
        """Return the split with so many of its examples; None returns all."""
        if num_examples is None or num_examples >= len(self.examples):
            return self
        chosen = _chosen(len(self.examples), num_examples, "dev subset")
        position = {example: index for index, example in enumerate(chosen)}
        features = [
            replace(feature, example=position[feature.example])
            for feature in self.features
            if feature.example in position
        ]
        return TaskSplit(self.name, [self.examples[index] for index in chosen], features)

    def fingerprint(self) -> str:
        """Hash of the ids and targets, so that a resumed run can tell that its data changed."""
        digest = hashlib.sha256()
        for feature in self.features:
            for row in feature.rows:
                digest.update(row.ids.tobytes())
            if feature.target is not None:
                digest.update(feature.target.tobytes())
        return digest.hexdigest()


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
        TaskSplit.make(task, "train", train, tokenizer, max_length),
        tuple(
            TaskSplit.make(
                task, name, sample(found, max_scored_examples, "scored"), tokenizer, max_length
            )
            for name, found in evals
        ),
        problems,
        max_length,
        {"train": len(usable), **{name: len(found) for name, found in evals}},
    )


def sample(
    examples: Sequence[Example], count: int | None, purpose: str = "training subset"
) -> Sequence[Example]:
    """Return so many examples, drawn without replacement, in their order; None returns all."""
    if count is None or count >= len(examples):
        return examples
    return [examples[index] for index in _chosen(len(examples), count, purpose)]


def _require_labels(task: Task, data: Path, split: str, examples: Sequence[Example]) -> None:
    missing = [example.id for example in examples if example.gold is None]
    if missing:
        raise DataError(
            f"{data}: {len(missing):,} of {len(examples):,} examples of {task.name}'s {split} "
            f"split have no label (first: {missing[0]}); fine-tuning needs all of them"
        )


def _chosen(total: int, count: int, purpose: str) -> list[int]:
    """Draw indices; files are often sorted by source, so the first ones would not do."""
    return sorted(rng(0, purpose).permutation(total)[:count].tolist())
