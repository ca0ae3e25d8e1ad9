"""Linear probes: what the frozen states of a model say about a task, beside simple baselines."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from litebert.common.errors import ConfigError, install_command
from litebert.common.progress import Progress, progress
from litebert.common.statistics import wilson_interval
from litebert.interop.folder import load_config, resolve
from litebert.predict.backend import Backend, Runtime, Threads, open_backend, run_features
from litebert.tasks.base import Feature, FloatArray, Prediction
from litebert.tasks.baselines import is_linear, linear_predictions, word_predictions
from litebert.tasks.registry import data_folder, find_task
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.setup import TaskData, load_task_data

if TYPE_CHECKING:
    from torch import nn

Weights = Literal["model", "random", "none"]
"""Whose states: the model's, those of random weights in its shape, or no model's."""
Features = Literal["cls", "mean", "table", "words", "majority"]
"""[CLS] of the last layer; mean of all its tokens; mean of the word table; words; no text."""

MAX_TRAIN = 10_000
_MAX_TOKENS = 8192


@dataclass(frozen=True)
class ProbeScore:
    """How well one kind of features does the task."""

    weights: Weights
    features: Features
    score: float  # accuracy on the dev examples, or Pearson's correlation for numbers
    low: float | None = None  # lower end of Wilson's 95 % interval of an accuracy
    high: float | None = None
    scores: dict[str, float] = field(default_factory=dict)  # the task's official scores


@dataclass(frozen=True)
class ProbeResult:
    """What :func:`probe` found."""

    model: str
    task: str
    metric: Literal["accuracy", "pearson"]  # what ``score`` is
    main_metric: str  # the task's own choice among ``scores``
    split: str  # that was scored
    train_examples: int
    dev_examples: int
    probes: tuple[ProbeScore, ...]

    def find(self, features: Features, weights: Weights = "model") -> ProbeScore | None:
        """The probe of some features; None if there is none."""
        found = (p for p in self.probes if (p.features, p.weights) == (features, weights))
        return next(found, None)


def probe(
    model: Path | str,
    task: str,
    data: Path | None = None,
    *,
    max_train: int | None = MAX_TRAIN,
    seed: int = 0,
    runtime: Runtime = "auto",
    strict: bool = False,
    threads: Threads = "auto",
    allow_unknown: bool = False,
) -> ProbeResult:
    """Fit linear models on frozen states of a model and score them on dev.

    Args:
        model: a model folder (torch), an ONNX folder that gives its states, or a hub name.
        task: a classification or regression task, by name or as a TOML file.
        data: folder with its train and dev files; a task file may name its own.
        max_train: examples to fit on, those that ``finetune`` would draw; None: all.
        seed: of the random weights.
        runtime: torch or ONNX; ``auto`` takes the ONNX file if the folder has one.
        strict: stop at the first bad row.
        threads: of the processor; ``auto`` lets the runtime decide.
        allow_unknown: go on where the vocabulary does not know most of the text.
    """
    if max_train is not None and max_train < 2:
        raise ConfigError(f"max_train is {max_train}: use 2 or more.")
    if not 0 <= seed < 1 << 63:
        raise ConfigError(f"seed is {seed}: use 0 or more, of at most 63 bits.")
    folder = resolve(model)
    tokenizer = Tokenizer.load(folder)
    backend = open_backend(folder, runtime, threads, device="auto")
    backend.info.require(("last_hidden_state",))
    length = backend.info.max_length
    examples = _load(task, data, tokenizer, length, max_train, strict, allow_unknown)
    found = examples.task
    for line in examples.report():
        print(line, file=sys.stderr)
    backends: dict[Weights, Backend] = {"model": backend, "random": _random_backend(folder, seed)}
    dev = examples.evals[0]
    probes = []
    total = (len(examples.train.features) + len(dev.features)) * len(backends)
    with progress(f"probing {model}", total, "input") as bar:
        for weights, one in backends.items():
            bar.update("random weights" if weights == "random" else "")
            probes += _probes(examples, weights, one, bar)
    majority = found.form.baseline(examples.train.examples, dev.examples)
    probes += [_words(examples), _score(examples, "none", "majority", majority)]
    return ProbeResult(
        model=str(model),
        task=found.name,
        metric="pearson" if found.form.kind == "regression" else "accuracy",
        main_metric=found.main_metric,
        split=dev.name,
        train_examples=len(examples.train.examples),
        dev_examples=len(dev.examples),
        probes=tuple(probes),
    )


class LiveProbe:
    """Probes of a model while it is trained: the same examples again and again.

    ``check`` is ``TASK:DIR``, the task and the folder of its files; own tasks may leave it out.
    """

    def __init__(self, check: str, tokenizer: Tokenizer, max_positions: int, max_train: int) -> None:
        name, _, folder = check.partition(":")
        data = Path(folder) if folder else None
        self._examples = _load(name, data, tokenizer, max_positions, max_train)
        self._words: float | None = None

    def scores(self, model: nn.Module, layers: int | None) -> dict[str, float]:
        """What the model's states reach now, by their names, and a bag of words beside them."""
        from litebert.predict.torch_backend import TorchBackend

        if self._words is None:
            self._words = _words(self._examples).score
        backend = TorchBackend(model, "pretraining")
        probes = _probes(self._examples, "model", backend, depth=layers)
        return {**{probe.features: probe.score for probe in probes}, "words": self._words}


def _load(
    name: str,
    data: Path | None,
    tokenizer: Tokenizer,
    max_positions: int,
    max_train: int | None,
    strict: bool = False,
    allow_unknown: bool = False,
) -> TaskData:
    """The examples of a task that linear models can do."""
    task = find_task(name, data)
    if not is_linear(task.form):
        raise ConfigError(
            f"probes are for classes and numbers; {task.name} is {task.form.kind}: use `litebert finetune`"
        )
    if find_spec("sklearn") is None:
        raise ConfigError(f"linear models need scikit-learn: {install_command('train')}")
    where, length = data_folder(task, data), min(task.max_length, max_positions)
    return load_task_data(task, where, tokenizer, length, max_train, strict, allow_unknown=allow_unknown)


def _words(examples: TaskData) -> ProbeScore:
    form, train, dev = examples.task.form, examples.train, examples.evals[0]
    return _score(examples, "none", "words", word_predictions(form, train.examples, dev.examples))


def _probes(
    examples: TaskData, weights: Weights, backend: Backend, bar: Progress | None = None, depth: int | None = None
) -> list[ProbeScore]:
    """One linear model for each kind of states."""
    form, train, dev = examples.task.form, examples.train, examples.evals[0]
    of_train, of_dev = (states(backend, split.features, examples.tokenizer, bar, depth) for split in (train, dev))
    found = []
    for name, vectors in of_train.items():
        said = linear_predictions(form, train.examples, dev.examples, vectors, of_dev[name])
        found.append(_score(examples, weights, name, said))
    return found


def states(
    backend: Backend,
    features: Sequence[Feature],
    tokenizer: Tokenizer,
    bar: Progress | None = None,
    depth: int | None = None,
) -> Mapping[Features, FloatArray]:
    """The frozen states of each feature: ``cls`` and ``mean`` [N, H], ``table`` [N, E].

    An ONNX model does not give its word table. Only these vectors are kept, not the states of every token.
    """
    found: dict[Features, FloatArray] = {}
    outputs = ("last_hidden_state",)
    pad_id = tokenizer.pad_id
    for index, said in run_features(backend, features, outputs, pad_id, _MAX_TOKENS, depth):
        sequence_SH = said["last_hidden_state"]
        if not found:
            shape = (len(features), sequence_SH.shape[1])
            found = {"cls": np.empty(shape, np.float32), "mean": np.empty(shape, np.float32)}
        found["cls"][index], found["mean"][index] = sequence_SH[0], sequence_SH.mean(0)
        if bar is not None:
            bar.advance()
    encoder = getattr(backend, "encoder", None)
    if encoder is not None:
        table_VE = encoder.embeddings.word.weight.detach().float().cpu().numpy()
        found["table"] = np.zeros((len(features), table_VE.shape[1]), np.float32)
        for index, feature in enumerate(features):
            ids = feature.rows[0].ids
            words = ids[~np.isin(ids, tokenizer.special_ids)]
            if len(words):
                found["table"][index] = table_VE[words].mean(0)
    return found


def _random_backend(folder: Path, seed: int) -> Backend:
    """Random weights in the shape of a model, as `finetune --start random` begins."""
    import torch

    from litebert.interop.hf import build_model
    from litebert.predict.torch_backend import TorchBackend

    generator = torch.Generator().manual_seed(seed)
    model = build_model(load_config(folder), "encoder", generator=generator).eval()
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return TorchBackend(model, "encoder")


def _score(examples: TaskData, weights: Weights, features: Features, predictions: Sequence[Prediction]) -> ProbeScore:
    dev = examples.evals[0].examples
    scores = examples.task.score(dev, predictions)
    if examples.task.form.kind == "regression":
        return ProbeScore(weights, features, scores["pearson"], scores=scores)
    right = [e.gold == p.value for e, p in zip(dev, predictions, strict=True)]
    accuracy = sum(right) / len(right)
    return ProbeScore(weights, features, accuracy, *wilson_interval(accuracy, len(dev)), scores)
