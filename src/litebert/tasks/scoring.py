"""Between a model and a task's score: which splits are read and scored, the order of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import InputError, MissingFileError
from litebert.tasks.base import Example, Outputs, Task
from litebert.tasks.problems import RowProblems

_BY_LABEL = frozenset({"logits", "token_logits"})
"""Outputs whose last axis is that of the labels."""


@dataclass(frozen=True)
class TaskEvaluation:
    """Scores of one split, and which of the models gave them.

    Example:
        >>> evaluate_models("rte", ["runs/rte/model"], Path("glue"))[0].scores
        {'accuracy': 0.61}
    """

    split: str
    scores: dict[str, float]
    """empty for a split without labels"""
    models: tuple[str, ...]
    """the members of the ensemble"""
    files: tuple[Path, ...] = ()
    """predictions files that were written"""


def read_splits(
    task: Task, data: Path, split: str | None, problems: RowProblems
) -> list[tuple[str, list[Example]]]:
    """Read one split or, without its name, all that have labels.

    Of those only the first must exist (MNLI has a second one). A file is one split, whatever its
    name.
    """
    first, *others = task.eval_splits
    if split is not None or data.is_file():
        name = split or first
        return [(name, task.read(data, name, problems))]
    found = [(first, task.read(data, first, problems))]
    for name in others:
        try:
            found.append((name, task.read(data, name, problems)))
        except MissingFileError:
            continue
    return found


def is_scored(task: Task, split: str, examples: Sequence[Example]) -> bool:
    """Whether a split gets scores: it has labels, and is not only for a leaderboard.

    The diagnostic set of GLUE is both: the leaderboard takes it, and its labels are published.
    """
    has_gold = all(example.gold is not None for example in examples)
    return has_gold and (split in task.eval_splits or split not in task.test_splits)


def are_unnamed(labels: Sequence[str]) -> bool:
    """Whether these are the names that transformers gives to outputs that nobody named."""
    return all(label == f"LABEL_{index}" for index, label in enumerate(labels))


def label_order(
    found: Sequence[str], wanted: Sequence[str], task: str, model: str = "the model"
) -> tuple[int, ...] | None:
    """Return at which output of a model each label of a task stands; None: in the task's order.

    Outputs that nobody named are taken to be in the task's order.

    Args:
        found: the model's labels, in the order of its outputs.
        wanted: the task's labels.
        task: the task's name, for the error line.
        model: the model's name, for the error line.

    Raises:
        InputError: they are other labels, or not as many.

    Example:
        >>> label_order(("yes", "no"), ("no", "yes"), "mine")
        (1, 0)
    """
    found, wanted = tuple(found), tuple(wanted)
    if found == wanted or (len(found) == len(wanted) and are_unnamed(found)):
        return None
    if sorted(found) != sorted(wanted):
        names = [", ".join(labels) or "none" for labels in (found, wanted)]
        raise InputError(
            f"{model}'s labels ({names[0]}) are not those of {task} ({names[1]}); "
            "choose a model fine-tuned on it"
        )
    return tuple(found.index(label) for label in wanted)


def in_order(outputs: Outputs, order: Sequence[int] | None) -> Outputs:
    """Return what a model said with its labels in the order that :func:`label_order` gave."""
    if order is None:
        return outputs
    return {
        name: values[..., list(order)] if name in _BY_LABEL else values
        for name, values in outputs.items()
    }
