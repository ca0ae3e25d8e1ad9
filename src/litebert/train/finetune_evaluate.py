"""Score fine-tuned models on a task, alone or as an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from litebert.common.errors import CheckpointError, ConfigError
from litebert.common.progress import progress
from litebert.interop.folder import resolve
from litebert.interop.hf import load_model
from litebert.tasks.base import Form, Outputs, Prediction, Task
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import data_folder, find_task
from litebert.tasks.spans import SpanForm
from litebert.tasks.squad import SquadTask
from litebert.tasks.task_file import TaskFile
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetune_data import TaskSplit, read_eval_splits
from litebert.train.finetune_predict import predict_features, score_split

_MAX_TOKENS = 8192


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


def evaluate_models(
    task_name: str,
    models: Sequence[str],
    data: Path | None,
    *,
    split: str | None = None,
    out: Path | None = None,
    choose: bool = False,
    problems: RowProblems | None = None,
    device: torch.device | None = None,
) -> list[TaskEvaluation]:
    """Score one model, or several whose predictions are averaged.

    Args:
        task_name: a benchmark or a task file.
        models: model folders or hub names.
        data: folder or file with the task's data.
        split: a split by name; by default all that have labels.
        out: folder for predictions in the official format.
        choose: take only those models that make the ensemble better on the first split.
        problems: collects bad rows.
        device: where to run; default: GPU if there is one.
    """
    task = find_task(task_name)
    folders = [resolve(model) for model in models]
    tokenizer, max_length = _shared_tokenizer(task, folders)
    if split == task.test_splits[0]:
        task = _with_tuned_threshold(task, folders[0])
    where = data_folder(task, data)
    bad_rows = problems if problems is not None else RowProblems()
    named = (
        read_eval_splits(task, where, bad_rows)
        if split is None
        else [(split, task.read(where, split, bad_rows))]
    )
    splits = [TaskSplit.make(task, n, e, tokenizer, max_length) for n, e in named]
    outputs = [_all_outputs(folder, splits, tokenizer.pad_id, device) for folder in folders]
    members = list(range(len(models)))
    if choose and len(models) > 1:
        members = choose_ensemble(task, splits[0], [found[0] for found in outputs])
    return [
        _evaluate_split(
            task,
            one,
            average(task.form, [outputs[member][number] for member in members]),
            tuple(str(models[member]) for member in members),
            out,
        )
        for number, one in enumerate(splits)
    ]


def average(form: Form, outputs: Sequence[Sequence[Outputs]]) -> list[Outputs]:
    """Average what several models said about the same features."""
    if len(outputs) == 1:
        return list(outputs[0])
    return [form.combine(of_feature) for of_feature in zip(*outputs, strict=True)]


def choose_ensemble(
    task: Task, split: TaskSplit, outputs: Sequence[Sequence[Outputs]]
) -> list[int]:
    """Return the models of the best ensemble found by adding the most helpful one at a time.

    Args:
        task: scores the ensembles by its main metric.
        split: examples with labels: dev.
        outputs: for each model, its outputs for the split's features.
    """
    chosen: list[int] = []
    best = float("-inf")
    while len(chosen) < len(outputs):
        scores = {}
        for candidate in range(len(outputs)):
            if candidate not in chosen:
                members = [outputs[member] for member in (*chosen, candidate)]
                found, _ = score_split(task, split, average(task.form, members))
                scores[candidate] = found[task.main_metric]
        candidate = max(scores, key=scores.__getitem__)
        if scores[candidate] <= best:
            break
        best = scores[candidate]
        chosen.append(candidate)
    return chosen


def _evaluate_split(
    task: Task, split: TaskSplit, outputs: list[Outputs], models: tuple[str, ...], out: Path | None
) -> TaskEvaluation:
    has_gold = all(example.gold is not None for example in split.examples)
    predictions: list[Prediction]
    if has_gold and split.name not in task.test_splits:
        scores, predictions = score_split(task, split, outputs)
    else:
        scores, predictions = {}, task.form.decode(split.examples, split.features, outputs)
    files: list[Path] = []
    if out is not None:
        files = task.write_predictions(out, split.name, split.examples, predictions)
    return TaskEvaluation(split.name, scores, models, tuple(files))


def _all_outputs(
    folder: Path, splits: Sequence[TaskSplit], pad_id: int, device: torch.device | None
) -> list[list[Outputs]]:
    model = load_model(folder)
    model.to(device or torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    total = sum(len(split.features) for split in splits)
    with progress(f"predicting with {folder}", total, "input") as bar:
        return [
            predict_features(model, split.features, pad_id, max_tokens=_MAX_TOKENS, bar=bar)
            for split in splits
        ]


def _shared_tokenizer(task: Task, folders: Sequence[Path]) -> tuple[Tokenizer, int]:
    """Return the tokenizer and input length of all models; they must agree."""
    if not folders:
        raise ConfigError("evaluate needs at least one model")
    lengths = []
    tokenizers = [Tokenizer.load(folder) for folder in folders]
    for folder, tokenizer in zip(folders, tokenizers, strict=True):
        if tokenizer.fingerprint != tokenizers[0].fingerprint:
            raise CheckpointError(
                f"{folder} has another tokenizer than {folders[0]}: an ensemble needs one"
            )
        described = TaskFile.read(folder)
        if described is not None and described.kind != task.form.kind:
            raise CheckpointError(
                f"{folder} was fine-tuned on {described.name} ({described.kind}), which is not "
                f"what {task.name} needs ({task.form.kind})"
            )
        lengths.append(task.max_length if described is None else described.max_length)
    return tokenizers[0], min(lengths)


def _with_tuned_threshold(task: Task, folder: Path) -> Task:
    """Return SQuAD 2.0 with the threshold that was tuned on dev, for data without labels."""
    described = TaskFile.read(folder)
    if described is None or not isinstance(task, SquadTask):
        return task
    form: SpanForm = replace(task.form, no_answer_threshold=described.no_answer_threshold)
    return replace(task, form=form)
