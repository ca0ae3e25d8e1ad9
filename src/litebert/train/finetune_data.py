"""The data of a fine-tuning run: examples and features of each split, and their fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.rng import rng
from litebert.tasks.base import Example, Feature, Task
from litebert.tasks.problems import RowProblems
from litebert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TaskSplit:
    """Examples with their model inputs.

    Example:
        >>> split = TaskSplit.make(task, examples, tokenizer, max_length=128)
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

    def first(self, num_examples: int | None) -> TaskSplit:
        """Return the split cut to its first examples."""
        if num_examples is None or num_examples >= len(self.examples):
            return self
        features = [f for f in self.features if f.example < num_examples]
        return TaskSplit(self.name, self.examples[:num_examples], features)

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

    def fingerprints(self) -> dict[str, str]:
        """Hashes that say which data a run used."""
        return {
            "tokenizer": self.tokenizer.fingerprint,
            "train": self.train.fingerprint(),
            **{split.name: split.fingerprint() for split in self.evals},
        }


def data_folder(task: Task, data: Path | None) -> Path:
    """Return the folder of the data; a task file that names its own files needs none."""
    if data is not None:
        return data
    folder = getattr(task, "folder", None)
    if not isinstance(folder, Path):
        raise DataError(f"task {task.name} needs --data: the folder with its files")
    return folder


def load_task_data(
    task: Task,
    data: Path,
    tokenizer: Tokenizer,
    max_length: int,
    max_train_examples: int | None,
    strict: bool,
) -> TaskData:
    """Read and tokenise the training split and the splits with labels."""
    problems = RowProblems(strict)
    examples = sample(task.read(data, "train", problems), max_train_examples)
    train = TaskSplit.make(task, "train", examples, tokenizer, max_length)
    return TaskData(
        task,
        tokenizer,
        train,
        tuple(
            TaskSplit.make(task, name, found, tokenizer, max_length)
            for name, found in read_eval_splits(task, data, problems)
        ),
        problems,
        max_length,
    )


def read_eval_splits(
    task: Task, data: Path, problems: RowProblems
) -> list[tuple[str, list[Example]]]:
    """Read the splits with labels; only the first must exist (MNLI has a second one)."""
    first, *others = task.eval_splits
    found = [(first, task.read(data, first, problems))]
    for name in others:
        try:
            found.append((name, task.read(data, name, problems)))
        except DataError:
            if problems.strict:
                raise
    return found


def sample(examples: Sequence[Example], count: int | None) -> Sequence[Example]:
    """Return so many examples, drawn without replacement, in their order; None returns all."""
    if count is None or count >= len(examples):
        return examples
    chosen = rng(0, "training subset").permutation(len(examples))[:count]
    return [examples[int(index)] for index in sorted(chosen)]
