"""Between a model and a task's score: splits with inputs, order of labels, worst mistakes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from litebert.common.errors import InputError, MissingFileError
from litebert.common.rng import rng
from litebert.tasks.base import Example, Examples, Features, Form, Outputs, Prediction, Predictions, Said, Scores, Task
from litebert.tasks.metrics import precision_recall_f1
from litebert.tasks.problems import RowProblems
from litebert.text.coverage import Coverage
from litebert.text.tokenizer import Tokenizer

_LONGEST_TEXT = 400  # of a mistake that is shown


@dataclass(frozen=True)
class TaskSplit:
    """Examples with their model inputs."""

    name: str
    examples: Examples
    features: Features

    @classmethod
    def make(cls, form: Form, name: str, examples: Examples, tokenizer: Tokenizer, max_length: int) -> TaskSplit:
        """Tokenise examples."""
        return cls(name, examples, form.features(examples, tokenizer, max_length))

    def sample(self, num_examples: int | None) -> TaskSplit:
        """Return the split with some of its examples; None returns all."""
        if num_examples is None or num_examples >= len(self.examples):
            return self
        chosen = _chosen(len(self.examples), num_examples, "dev subset")
        position = {example: index for index, example in enumerate(chosen)}
        own = (feature for feature in self.features if feature.example in position)
        features = [replace(feature, example=position[feature.example]) for feature in own]
        return TaskSplit(self.name, [self.examples[index] for index in chosen], features)

    def coverage(self, tokenizer: Tokenizer) -> Coverage:
        """Count the tokens that the vocabulary does not know."""
        return Coverage.of((row.ids for feature in self.features for row in feature.rows), tokenizer)

    def fingerprint(self) -> str:
        """Hash of the ids and targets, so that a resumed run can tell that its data changed."""
        digest = hashlib.sha256()
        for feature in self.features:
            for row in feature.rows:
                digest.update(row.ids.tobytes())
            for array in (feature.target, feature.teacher):
                digest.update(b"" if array is None else array.tobytes())
        return digest.hexdigest()


def sample(examples: Examples, count: int | None, purpose: str = "training subset") -> Examples:
    """Return some of the examples, drawn without replacement, in their order; None: all."""
    if count is None or count >= len(examples):
        return examples
    return [examples[index] for index in _chosen(len(examples), count, purpose)]


def _chosen(total: int, count: int, purpose: str) -> list[int]:
    """Draw indices; files are often sorted by source, so the first ones would not do."""
    return sorted(rng(0, purpose).permutation(total)[:count].tolist())


def score_split(task: Task, split: TaskSplit, outputs: Said) -> tuple[Scores, list[Prediction]]:
    """Decode outputs and return the official scores and the predictions."""
    predictions = task.form.decode(split.examples, split.features, outputs)
    return task.score(split.examples, predictions), predictions


def read_splits(task: Task, data: Path, split: str | None, problems: RowProblems) -> list[tuple[str, list[Example]]]:
    """Read one split or, without its name, all with labels, of which only the first must exist; a file is one split."""
    first, *others = task.eval_splits
    found = [(split or first, task.read(data, split or first, problems))]
    for name in () if split is not None or data.is_file() else others:
        with suppress(MissingFileError):
            found.append((name, task.read(data, name, problems)))
    return found


def is_scored(task: Task, split: str, examples: Examples) -> bool:
    """Whether a split has labels and is not for a leaderboard alone (GLUE's ax is for both)."""
    has_gold = all(example.gold is not None for example in examples)
    return has_gold and (split in task.eval_splits or split not in task.test_splits)


def are_unnamed(labels: Sequence[str]) -> bool:
    """Whether these are the names that transformers gives to outputs without names."""
    return all(label == f"LABEL_{index}" for index, label in enumerate(labels))


def label_order(
    found: Sequence[str], wanted: Sequence[str], task: str, model: str = "the model"
) -> tuple[int, ...] | None:
    """Return at which output of a model each label of a task stands; None: in the task's order, also if without names.

    >>> label_order(("yes", "no"), ("no", "yes"), "mine")
    (1, 0)
    """
    found, wanted = tuple(found), tuple(wanted)
    if found == wanted or (len(found) == len(wanted) and are_unnamed(found)):
        return None
    if sorted(found) != sorted(wanted):
        names = [", ".join(labels) or "none" for labels in (found, wanted)]
        raise InputError(
            f"{model}'s labels ({names[0]}) are not those of {task} ({names[1]}); choose a model fine-tuned on it"
        )
    return tuple(found.index(label) for label in wanted)


def in_order(outputs: Outputs, order: Sequence[int] | None) -> Outputs:
    """Return what a model said with its labels in the order that :func:`label_order` gave."""
    if order is None:
        return outputs
    by_label = ("logits", "token_logits")  # the last axis is that of the labels
    return {k: v[..., list(order)] if k in by_label else v for k, v in outputs.items()}


def scores_by_class(form: Form, examples: Examples, predictions: Predictions) -> list[dict[str, object]]:
    """Return precision, recall, F1 and the number of each class, label or type of entity."""
    right, said, gold = Counter[object](), Counter[object](), Counter[object]()
    for example, prediction in zip(examples, predictions, strict=True):
        wanted, found = form.items(example.gold), form.items(prediction.value)
        gold.update(item[0] for item in wanted)
        said.update(item[0] for item in found)
        right.update(item[0] for item in wanted & found)
    rows: list[dict[str, object]] = []
    for name in sorted(gold.keys() | said.keys(), key=str):
        rates = precision_recall_f1(right[name], said[name], gold[name])
        rows.append({"class": name, **rates, "count": gold[name]})
    return rows


def worst_mistakes(
    form: Form, examples: Examples, predictions: Predictions, count: int = 20
) -> list[dict[str, object]]:
    """Return the wrong predictions the model was surest of, worst first."""
    pairs = zip(examples, predictions, strict=True)
    judged = [(form.badness(e, p), e, p) for e, p in pairs if e.gold is not None]
    ranked = sorted((one for one in judged if one[0] > 0), key=lambda one: -one[0])
    return [
        {
            "id": example.id,
            "text": _shorten(example.text or " ".join(example.words)),
            **({} if example.text_pair is None else {"text_pair": _shorten(example.text_pair)}),
            "gold": form.named(example, example.gold),
            "predicted": form.named(example, prediction.value),
            "badness": round(badness, 4),
        }
        for badness, example, prediction in ranked[:count]
    ]


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
