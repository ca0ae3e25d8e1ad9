"""Score fine-tuned models on a task, alone or as an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from litebert.common.errors import CheckpointError, ConfigError, MissingFileError
from litebert.common.progress import progress
from litebert.interop.folder import ModelFolder, resolve
from litebert.interop.hf import load_model
from litebert.tasks.base import Example, Form, Outputs, Prediction, Task
from litebert.tasks.forms.spans import SpanForm
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import data_folder, find_task
from litebert.tasks.scoring import TaskEvaluation, in_order, is_scored, label_order, read_splits
from litebert.tasks.task_file import TaskFile
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.data import TaskSplit
from litebert.train.finetuning.model import heads_for
from litebert.train.finetuning.predict import predict_features, score_split

_MAX_TOKENS = 8192


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
        choose: take only those models that make the ensemble better on dev.
        problems: collects bad rows.
        device: where to run; default: GPU if there is one.
    """
    task = find_task(task_name)
    folders = [resolve(model) for model in models]
    tokenizer, max_length = _shared_tokenizer(task, folders)
    orders = [
        label_order(_labels(folder), task.form.labels, task.name, str(folder)) for folder in folders
    ]
    where = data_folder(task, data)
    bad_rows = problems if problems is not None else RowProblems()
    named = read_splits(task, where, split, bad_rows)
    num_asked = len(named)
    if len(models) > 1 and not is_scored(task, *named[0]):
        named += _dev_beside(task, where, choose, bad_rows)
    splits = [TaskSplit.make(task, n, e, tokenizer, max_length) for n, e in named]
    outputs = [
        _all_outputs(folder, order, splits, tokenizer.pad_id, device)
        for folder, order in zip(folders, orders, strict=True)
    ]
    members = list(range(len(models)))
    judge = num_asked if len(splits) > num_asked else 0
    if choose and len(models) > 1:
        members = choose_ensemble(task, splits[judge], [found[judge] for found in outputs])
    averaged = [
        average(task.form, [outputs[member][number] for member in members])
        for number in range(len(splits))
    ]
    if len(splits) > num_asked:
        scores, _ = score_split(task, splits[judge], averaged[judge])
        tuned = _with_threshold(task.form, scores.get("best_f1_thresh"))
    else:
        described = TaskFile.read(folders[members[0]])
        tuned = _with_threshold(
            task.form, None if described is None else described.no_answer_threshold
        )
    names = tuple(str(models[member]) for member in members)
    return [
        _evaluate_split(task, tuned, splits[number], averaged[number], names, out)
        for number in range(num_asked)
    ]


def _dev_beside(
    task: Task, where: Path, must: bool, problems: RowProblems
) -> list[tuple[str, list[Example]]]:
    """Read dev beside a split without labels: it chooses an ensemble and tunes its threshold."""
    needed = must or (isinstance(task.form, SpanForm) and task.form.may_be_unanswerable)
    if not needed:
        return []
    name = task.eval_splits[0]
    if where.is_file():
        if must:
            raise ConfigError(f"--choose needs the {name} split: give the folder as --data")
        return []
    try:
        return [(name, task.read(where, name, problems))]
    except MissingFileError:
        if must:
            raise
        return []


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
    task: Task,
    tuned: Form,
    split: TaskSplit,
    outputs: list[Outputs],
    models: tuple[str, ...],
    out: Path | None,
) -> TaskEvaluation:
    predictions: list[Prediction]
    if is_scored(task, split.name, split.examples):
        scores, predictions = score_split(task, split, outputs)
    else:
        scores, predictions = {}, tuned.decode(split.examples, split.features, outputs)
    files: list[Path] = []
    if out is not None:
        files = task.write_predictions(out, split.name, split.examples, predictions)
    return TaskEvaluation(split.name, scores, models, tuple(files))


def _all_outputs(
    folder: Path,
    order: Sequence[int] | None,
    splits: Sequence[TaskSplit],
    pad_id: int,
    device: torch.device | None,
) -> list[list[Outputs]]:
    """Return what a model says about each feature of each split, in the order of the labels."""
    model = load_model(folder)
    model.to(device or torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    total = sum(len(split.features) for split in splits)
    with progress(f"predicting with {folder}", total, "input") as bar:
        said = [
            predict_features(model, split.features, pad_id, max_tokens=_MAX_TOKENS, bar=bar)
            for split in splits
        ]
    return [[in_order(outputs, order) for outputs in of_split] for of_split in said]


def _labels(folder: Path) -> tuple[str, ...]:
    """Return the labels of a model in the order of its outputs."""
    described = TaskFile.read(folder)
    return ModelFolder(folder).classes if described is None else described.labels


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
        _check_head(task, folder, folders[0])
        wanted = task.max_length if described is None else described.max_length
        lengths.append(min(wanted, ModelFolder(folder).config.max_positions))
    return tokenizers[0], min(lengths)


def _check_head(task: Task, folder: Path, first: Path) -> None:
    """Refuse a model that cannot do the task, and an ensemble of different heads."""
    head = ModelFolder(folder).head
    if head not in heads_for(task.form):
        raise CheckpointError(
            f"{folder} is a {head} model, which cannot do {task.name}: fine-tune it first, "
            f"`litebert finetune {task.name} --model {folder} ...`"
        )
    if head != ModelFolder(first).head:
        raise CheckpointError(f"{folder} has another head than {first}: an ensemble needs one")


def _with_threshold(form: Form, threshold: float | None) -> Form:
    """Return the form with the no-answer threshold tuned on dev, for data without labels."""
    if threshold is None or not isinstance(form, SpanForm):
        return form
    return replace(form, no_answer_threshold=threshold)
