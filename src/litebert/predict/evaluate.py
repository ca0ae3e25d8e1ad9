"""Score models on a task: torch and ONNX folders, alone or as an ensemble, and live models."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import CheckpointError, ConfigError, MissingFileError
from litebert.common.ownership import keep_files
from litebert.common.progress import Progress, progress
from litebert.interop.folder import resolve
from litebert.predict.backend import Backend, Threads, open_backend, run_features
from litebert.predict.inputs import join_rows, single_rows
from litebert.predict.purpose import Purpose
from litebert.tasks.base import Example, Feature, Form, Outputs, Task
from litebert.tasks.forms.spans import EnsembleRule
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import data_folder, find_task
from litebert.tasks.scoring import TaskSplit, in_order, is_scored, read_splits, score_split
from litebert.text.tokenizer import Tokenizer

_MAX_TOKENS = 8192


@dataclass(frozen=True)
class TaskEvaluation:
    """Scores of one split, and which of the models gave them."""

    split: str
    scores: dict[str, float]  # empty for a split without labels
    models: tuple[str, ...]  # the members of the ensemble
    files: tuple[Path, ...] = ()  # predictions files that were written


def evaluate_models(
    task: str | Task,
    models: Sequence[str],
    data: Path | None,
    *,
    split: str | None = None,
    out: Path | None = None,
    choose: bool = False,
    ensemble: EnsembleRule | None = None,
    problems: RowProblems | None = None,
    device: str = "auto",
    threads: Threads = "auto",
    allow_unknown: bool = False,
) -> list[TaskEvaluation]:
    """Score one model, or several whose predictions are averaged.

    Args:
        task: a benchmark, a task file, or the task itself.
        models: model folders, ONNX folders or hub names, in any mixture.
        split: by default all that have labels.
        out: folder for predictions in the official format.
        choose: take only those models that make the ensemble better on dev.
        ensemble: how answers of the paper's SQuAD 2.0 head are averaged; default: official.
        allow_unknown: continue where the vocabulary does not know most of the text.
        device: where torch runs; ``auto`` takes a GPU if there is one.
        threads: of the processor; ``auto`` lets the runtime decide.
    """
    if not models:
        raise ConfigError("evaluate needs at least one model")
    folders = [resolve(model) for model in models]
    purposes = [Purpose.read(folder) for folder in folders]
    task = purposes[0].named(find_task(task, data) if isinstance(task, str) else task)
    where = data_folder(task, data)
    if out is not None:
        keep_files(out, [("--model", name) for name in models])
        if out.resolve() == (where.parent if where.is_file() else where).resolve():
            raise ConfigError(f"--out {out} holds the data: give predictions a folder of their own")
    tokenizer = _shared_tokenizer(task, folders, purposes)
    orders = [purpose.order_for(task) for purpose in purposes]
    bad_rows = problems if problems is not None else RowProblems()
    named = read_splits(task, where, split, bad_rows)
    num_asked = len(named)
    if len(models) > 1 and not is_scored(task, *named[0]):
        named += _dev_beside(task, where, choose, bad_rows)
    # Windows overlap as the model learned them.
    form = task.form.changed(
        stride=None if (own := purposes[0].task) is None else own.stride, pooling=purposes[0].vectors.pooling
    )
    length = min(purpose.length_for(task) for purpose in purposes)
    splits = [TaskSplit.make(form, name, found, tokenizer, length) for name, found in named]
    for one in splits:
        warning = one.coverage(tokenizer).check(f"{task.name}, {one.name}", allow_unknown)
        if warning is not None:
            print(warning, file=sys.stderr)

    def said_by(folder: Path, order: Sequence[int] | None) -> list[list[Outputs]]:
        """Return what a model says about each feature of each split, in the order of the labels."""
        # Unpacked weights, so that a score is that of training to the last digit.
        backend = open_backend(folder, threads=threads, device=device, packed=False)
        with progress(f"predicting with {folder}", sum(len(one.features) for one in splits), "input") as bar:
            said = [outputs_of(backend, form, one.features, tokenizer.pad_id, bar=bar) for one in splits]
        return [[in_order(outputs, order) for outputs in of_split] for of_split in said]

    outputs = list(map(said_by, folders, orders))
    rule = task.form.changed(ensemble=ensemble)
    members = list(range(len(models)))
    has_dev = len(splits) > num_asked
    judge = num_asked if has_dev else 0
    if choose and len(models) > 1:
        members = _choose_ensemble(task, splits[judge], [found[judge] for found in outputs], rule)
    chosen = zip(*(outputs[member] for member in members), strict=True)
    averaged = [_average(rule, of_split) for of_split in chosen]
    described = purposes[members[0]].task
    threshold = None if described is None else described.no_answer_threshold
    if has_dev:
        scores, _ = score_split(task, splits[judge], averaged[judge])
        threshold = scores.get("best_f1_thresh")
    tuned = task.form.changed(no_answer_threshold=threshold)  # tuned on dev
    names = tuple(str(models[member]) for member in members)
    evaluations = []
    for one, said in zip(splits[:num_asked], averaged[:num_asked], strict=True):
        found: dict[str, float] = {}
        if is_scored(task, one.name, one.examples):
            found, predictions = score_split(task, one, said)
        else:
            predictions = tuned.decode(one.examples, one.features, said)
        files = [] if out is None else task.write_predictions(out, one.name, one.examples, predictions)
        evaluations.append(TaskEvaluation(one.name, found, names, tuple(files)))
    return evaluations


def outputs_of(
    backend: Backend,
    form: Form,
    features: Sequence[Feature],
    pad_id: int,
    *,
    max_tokens: int = _MAX_TOKENS,
    depth: int | None = None,
    bar: Progress | None = None,
) -> list[Outputs]:
    """Return what a model says about each feature of a task, in their order."""
    names = form.outputs(backend.info.outputs)
    # Features may share a row, such as a paragraph that many questions are compared with.
    rows = {id(feature.rows[0]): feature for feature in single_rows(features)}
    shares = Counter[int]()
    for feature in features:
        shares.update({id(row): 1 / len(feature.rows) for row in feature.rows})
    found: dict[int, Outputs] = {}
    keys = list(rows)
    for index, said in run_features(backend, list(rows.values()), names, pad_id, max_tokens, depth):
        found[keys[index]] = form.condensed(said)
        if bar is not None:
            bar.advance(shares[keys[index]])
    return join_rows(features, [found[id(row)] for feature in features for row in feature.rows])


def _dev_beside(task: Task, where: Path, must: bool, problems: RowProblems) -> list[tuple[str, list[Example]]]:
    """Read dev beside a split without labels: it chooses an ensemble and tunes its threshold."""
    name = task.eval_splits[0]
    if where.is_file() and must:
        raise ConfigError(f"--choose needs the {name} split: give the folder as --data")
    try:
        if not where.is_file() and (must or task.form.may_be_unanswerable):
            return [(name, task.read(where, name, problems))]
    except MissingFileError:
        if must:
            raise
    return []


def _average(form: Form, outputs: Sequence[Sequence[Outputs]]) -> list[Outputs]:
    """Average what several models said about the same features."""
    return [form.combine(said) if len(said) > 1 else said[0] for said in zip(*outputs, strict=True)]


def _choose_ensemble(task: Task, split: TaskSplit, outputs: Sequence[Sequence[Outputs]], form: Form) -> list[int]:
    """Return the best ensemble found by adding the most helpful model at a time; ``form`` averages their outputs."""
    chosen: list[int] = []
    best = float("-inf")
    while len(chosen) < len(outputs):
        scores = {}
        for candidate in [one for one in range(len(outputs)) if one not in chosen]:
            members = [outputs[member] for member in (*chosen, candidate)]
            scores[candidate] = score_split(task, split, _average(form, members))[0][task.main_metric]
        candidate = max(scores, key=scores.__getitem__)
        if scores[candidate] <= best:
            break
        best = scores[candidate]
        chosen.append(candidate)
    return chosen


def _shared_tokenizer(task: Task, folders: Sequence[Path], purposes: Sequence[Purpose]) -> Tokenizer:
    """Return the tokenizer of all models; they must agree, and be able to do the task."""
    tokenizers = [Tokenizer.load(folder) for folder in folders]
    for folder, purpose, tokenizer in zip(folders, purposes, tokenizers, strict=True):
        reason = purpose.mismatch(task)
        if not tokenizer.agrees_with(tokenizers[0]):
            reason = f"{folder} has another tokenizer than {folders[0]}: an ensemble needs one"
        elif reason is None and purpose.head != purposes[0].head:
            reason = f"{folder} has another head than {folders[0]}: an ensemble needs one"
        if reason is not None:
            raise CheckpointError(reason)
    return tokenizers[0]
