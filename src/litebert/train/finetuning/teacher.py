"""What a teacher says about training examples: logits of its own head, or vectors of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from litebert.common.errors import ConfigError, DataError
from litebert.common.progress import progress
from litebert.common.rows import read_rows
from litebert.interop.folder import load_config, resolve
from litebert.predict.backend import open_backend
from litebert.predict.evaluate import outputs_of
from litebert.predict.purpose import Purpose
from litebert.tasks.base import Example, Outputs, Task
from litebert.tasks.custom import CustomTask, example_of_row
from litebert.tasks.forms.similarity import SimilarityForm
from litebert.tasks.registry import input_columns
from litebert.tasks.scoring import TaskSplit, in_order
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.setup import TaskData
from litebert.train.teacher_vectors import TO_ALIGN, aligned, fitted, stored_vectors

_KINDS = ("classification", "multi_label", "regression", "multiple_choice", "similarity")


def with_teacher(config: FinetuneConfig, data: TaskData) -> TaskData:
    """Return the data of a run with what its teacher says about each training feature."""
    if config.teacher is None:
        return data
    task, form = data.task, data.task.form
    if form.kind not in _KINDS:
        raise ConfigError(f"--teacher: not for {form.kind.replace('_', ' ')}; it is for {', '.join(_KINDS)}")
    if isinstance(form, SimilarityForm):
        return replace(data, train=_with_vectors(config, form, data))
    unlabelled = [] if config.teacher_text is None else _unlabelled(task, config.teacher_text)
    examples = [*data.train.examples, *unlabelled]
    said = _said(config.teacher, task, examples)
    features = list(data.train.features)
    if unlabelled:
        # The teacher's word is their label.
        own = form.features(unlabelled, data.tokenizer, data.max_length)
        told = zip(unlabelled, form.decode(unlabelled, own, said[-len(unlabelled) :]), strict=True)
        named = [replace(example, gold=answer.value) for example, answer in told]  # type: ignore[arg-type]
        split = TaskSplit.make(form, "train", named, data.tokenizer, data.max_length)
        if data.scale is not None:
            split = data.scale.standardized(split)
        first = len(data.train.examples)
        features += [replace(f, example=first + f.example) for f in split.features]
        examples[first:] = named
    logits = [outputs["logits"] for outputs in said]
    if data.scale is not None:
        logits = [(value - data.scale.mean) / data.scale.deviation for value in logits]
    taught = [replace(f, teacher=np.asarray(logits[f.example], np.float32)) for f in features]
    return replace(data, train=TaskSplit("train", examples, taught))


def _said(folder: str, task: Task, examples: Sequence[Example]) -> list[Outputs]:
    """Ask a model about examples, in its own pieces; a model of another task is refused."""
    purpose = Purpose.read(path := resolve(folder))
    if (reason := purpose.mismatch(task)) is not None:
        raise ConfigError(f"--teacher: {reason}")
    order, tokenizer = purpose.order_for(task), Tokenizer.load(path)
    form = task.form.changed(pooling=purpose.vectors.pooling)
    features = form.features(examples, tokenizer, purpose.length_for(task))
    with progress("asking the teacher", len(features), "input") as bar:
        backend = open_backend(path, packed=False)
        said = outputs_of(backend, form, features, tokenizer.pad_id, bar=bar)
    return [in_order(outputs, order) for outputs in said]


def _unlabelled(task: Task, path: Path) -> list[Example]:
    rows = read_rows(path) if not isinstance(task, CustomTask) else task.rows(path, by_name=True)
    columns, examples = input_columns(task), []
    for number, row in rows:
        if isinstance(row, DataError):
            raise DataError(f"{path}:{number}: {row}")
        examples.append(example_of_row(task.form, row, columns, f"unlabelled-{number}"))
    return examples


def _with_vectors(config: FinetuneConfig, form: SimilarityForm, data: TaskData) -> TaskSplit:
    """Return the training split with a vector of the teacher for each text, as the student's."""
    teacher, examples, features = str(config.teacher), data.train.examples, data.train.features
    if isinstance(data.task, CustomTask) and data.task.has_bare_sentences:
        # The teacher knows what they mean: one view is enough.
        features = [replace(f, rows=f.rows[:1], target=np.asarray(f.target)[:1]) for f in features]
    texts = [form.texts_of(examples[f.example])[: len(f.rows)] for f in features]
    if teacher.endswith(".parquet"):
        known = stored_vectors(Path(teacher), {text for found in texts for text in found})
        vectors = [np.stack([known[text] for text in found]) for found in texts]
    else:
        said = _said(teacher, data.task, examples)
        vectors = [said[f.example]["vectors"][: len(f.rows)] for f in features]
    wanted = fitted(np.concatenate(vectors), load_config(config.model).hidden_size)
    student = open_backend(resolve(config.model), packed=False)
    own = outputs_of(student, form, features[:TO_ALIGN], data.tokenizer.pad_id)
    wanted = aligned(wanted, np.concatenate([outputs["vectors"] for outputs in own]))
    ends = np.cumsum([len(found) for found in vectors])[:-1]
    pairs = zip(features, np.split(wanted, ends), strict=True)
    return replace(data.train, features=[replace(f, teacher=found) for f, found in pairs])
