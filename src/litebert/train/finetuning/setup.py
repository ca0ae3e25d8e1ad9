"""What a fine-tuning run is made of: its recipe, data, model, state and the loss of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from litebert.common.config import from_dict, to_dict
from litebert.common.errors import ConfigError, DataError
from litebert.common.progress import say
from litebert.common.rng import derived_seed, rng
from litebert.common.runs import RunFolder
from litebert.common.statistics import interval_in_percent
from litebert.dist.runtime import Precision, autocast
from litebert.interop import hf
from litebert.interop.folder import load_config, resolve
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder, HeadInputs
from litebert.model.head_table import HEADS, Head
from litebert.model.heads import LinearHead, TaskModel, teacher_loss
from litebert.model.similarity import SentenceEncoder, match_loss
from litebert.predict.batches import micro_batches
from litebert.predict.inputs import PaddedBatch, pad
from litebert.predict.torch_backend import head_inputs
from litebert.tasks.base import Example, Feature, Outputs, Task
from litebert.tasks.custom import CustomTask
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import data_folder, find_task
from litebert.tasks.scoring import TaskSplit, read_splits, sample
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.config import PAPER_HIDDEN_SIZE, FinetuneConfig, Recipe, Settings, recipe_for
from litebert.train.finetuning.order import Batch, JointBatch
from litebert.train.run import TrainState, refuse_changes

_FREE_SETTINGS = ("out", "resume", "log_every_steps", "device", "max_tokens", "baseline", "allow_unknown")
_DROPOUT_OF_VIEWS = 0.1  # what two views of one sentence differ by (SimCSE's)
MOST_FEATURES = 4096  # whose states tell how they vary, for a whitened pooler
_DEVIATION = 0.5  # of each number before the pooler's tanh, which hardly bends it
_LEAST = 1e-3  # deviation of a direction at least: texts that are all the same have none
_RIDGE = 0.01  # of the mean variance: what hardly varies is not blown up without bound
FEW_EXAMPLES = 50  # a dev split of fewer says little: the interval is shown


@dataclass(frozen=True)
class LabelScale:
    """Mean and deviation of training labels, a head learns numbers of size 1; a written model has them folded in."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, examples: Sequence[Example]) -> LabelScale:
        """Measure the labels of a regression task."""
        labels = np.array([example.gold for example in examples], np.float64)
        return cls(float(labels.mean()), float(labels.std()) or 1.0)

    def standardized(self, split: TaskSplit) -> TaskSplit:
        """Return a split with targets to learn."""
        targets = ((np.asarray(feature.target, np.float64) - self.mean) / self.deviation for feature in split.features)
        pairs = zip(split.features, targets, strict=True)
        return replace(split, features=[replace(f, target=target.astype(np.float32)) for f, target in pairs])

    def restored(self, outputs: Outputs) -> Outputs:
        """Return what a model in training says on the user's scale."""
        return {name: value * self.deviation + self.mean for name, value in outputs.items()}

    @torch.no_grad()
    def fold(self, model: nn.Module) -> None:
        """Put the scale into the head's weight and bias."""
        name = HEADS["regression"].linear
        weight, bias = (model.get_parameter(f"{name}.{part}") for part in ("weight", "bias"))
        weight.mul_(self.deviation)
        bias.mul_(self.deviation).add_(self.mean)


@dataclass(frozen=True)
class TaskData:
    """Everything a run reads."""

    task: Task
    tokenizer: Tokenizer
    train: TaskSplit
    evals: tuple[TaskSplit, ...]  # splits with labels; the first one picks the best checkpoint
    problems: RowProblems
    max_length: int
    available: Mapping[str, int]  # usable examples of each split, before a subset was drawn
    found: Sequence[str] = ()  # what the files turned out to hold, and what is doubtful about it, for people
    scale: LabelScale | None = None  # that of the training targets, where they are not the labels themselves

    def report(self) -> list[str]:
        """Return lines for people: what was found in the files, bad rows, too small a dev set."""
        return [*self.found, *self.problems.report()]

    def fingerprints(self) -> dict[str, str]:
        """Hashes that say which data a run used."""
        splits = {split.name: split.fingerprint() for split in (self.train, *self.evals)}
        return {"tokenizer": self.tokenizer.fingerprint, **splits}


def load_task_data(
    task: Task,
    data: Path,
    tokenizer: Tokenizer,
    max_length: int,
    max_train_examples: int | None,
    strict: bool,
    max_scored_examples: int | None = None,
    allow_unknown: bool = False,
) -> TaskData:
    """Read and tokenise train and all splits with labels; one file of an own task is cut in two."""
    if data.is_file() and data.suffix != ".toml":
        if not isinstance(task, CustomTask):
            raise ConfigError(f"--data {data} is a file; {task.name} needs the folder with its train and dev files")
        task, data = task.of_one_file(data), task.folder
    problems = RowProblems(strict)
    usable = task.read(data, "train", problems)
    evals = read_splits(task, data, None, problems)
    for name, found in (("train", usable), *evals):
        if missing := [example.id for example in found if example.gold is None]:
            raise DataError(
                f"{data}: {len(missing):,} of {len(found):,} examples of {task.name}'s {name} split have no label "
                f"(first: {missing[0]}); fine-tuning needs all of them"
            )
    split = partial(TaskSplit.make, task.form, tokenizer=tokenizer, max_length=max_length)
    train = split("train", sample(usable, max_train_examples))
    scored = [split(name, sample(found, max_scored_examples, "scored")) for name, found in evals]
    lines = task.describe_files(data) if isinstance(task, CustomTask) else []
    for part in (train, *scored):
        if warning := part.coverage(tokenizer).check(f"{task.name}, {part.name}", allow_unknown):
            lines.append(warning)
    if (num_scored := len(scored[0].examples)) < FEW_EXAMPLES:
        lines.append(
            f"warning: {scored[0].name} has {num_scored} examples: a score of 80 % may stand for "
            f"{interval_in_percent(0.8, num_scored)} (95 % interval)"
        )
    counts = {"train": len(usable), **{name: len(found) for name, found in evals}}
    return TaskData(task, tokenizer, train, tuple(scored), problems, max_length, counts, lines)


def prepare_data(config: FinetuneConfig, *, quiet: bool = False) -> TaskData:
    """Read and tokenise the data of a run; several seeds share it."""
    task = find_task(config.task, config.data)
    recipe, shape = _recipe(config, task)
    max_length = Settings.max_length_of(config, recipe, task.max_length, shape.max_positions)
    tokenizer = Tokenizer.load(resolve(config.model))
    if tokenizer.vocab_size > shape.vocab_size:
        raise ConfigError(
            f"{config.model} has a tokenizer of {tokenizer.vocab_size} pieces for a model of "
            f"{shape.vocab_size}: it is not the model's own"
        )
    folder, most, scored = data_folder(task, config.data), config.max_train_examples, config.max_scored_examples
    data = load_task_data(task, folder, tokenizer, max_length, most, config.strict, scored, config.allow_unknown)
    is_published = not isinstance(task, CustomTask) and shape.hidden_size >= PAPER_HIDDEN_SIZE
    if task.form.kind == "regression" and not is_published:
        scale = LabelScale.of(data.train.examples)
        data = replace(data, train=scale.standardized(data.train), scale=scale)
    for line in () if quiet else data.report():
        say(line)
    return data


@dataclass
class FinetuneState(TrainState):
    """Everything about a fine-tuning run that is neither weights nor optimizer."""

    kept: tuple[tuple[float, ...], ...] = ()  # (score, step) of the best evaluations, best first
    evals_since_best: int = 0

    def kept_steps(self) -> list[int]:
        """Steps of the best evaluations, best first."""
        return [int(step) for _, step in self.kept]

    def add(self, score: float, num_kept: int) -> bool:
        """Note an evaluation of the current step; return whether its weights are to be kept."""
        is_best = not self.kept or score > self.kept[0][0]
        self.evals_since_best = 0 if is_best else self.evals_since_best + 1
        # Of equal scores the earlier one counts as better.
        ranked = sorted((*self.kept, (score, float(self.step))), key=lambda e: (-e[0], e[1]))
        self.kept = tuple(ranked[:num_kept])
        return self.step in self.kept_steps()


def finetuning_identity(config: FinetuneConfig) -> dict[str, object]:
    """What must not change between the parts of a run: settings, and the shape of the model."""
    shape = to_dict(load_config(config.model))
    return {**_settings(config), **{f"model.{key}": value for key, value in shape.items()}}


def check_same_settings(config: FinetuneConfig) -> None:
    """Refuse to go on with the run in ``config.out`` if its settings were others."""
    # Settings that the run's version did not have yet had what is their default now.
    before = from_dict(FinetuneConfig, RunFolder.open(config.out).section("config"), str(config.out))
    refuse_changes(config.out, _settings(before), _settings(config))


def resolve_settings(config: FinetuneConfig, data: TaskData) -> Settings:
    """The recipe of a run with everything decided."""
    recipe, _ = _recipe(config, data.task)
    return Settings.resolve(config, recipe, data.max_length, len(data.train.features))


def build_task_model(config: FinetuneConfig, settings: Settings, data: TaskData) -> tuple[nn.Module, Head]:
    """The model to train, with a new head that is the same for equal seeds; the head's name."""
    head = data.task.form.head(config.head)
    generator = torch.Generator().manual_seed(derived_seed(config.seed, "new head"))
    overrides: dict[str, object] = {
        "hidden_dropout": settings.dropout,
        "attention_dropout": settings.dropout,
        "classifier_dropout": settings.classifier_dropout,
        # The pooling of vectors stands in files of its own.
        "pooling": "cls" if head == "encoder" else settings.pooling,
    }
    num_labels = len(data.task.form.labels) or None
    if config.start == "random":
        model = hf.build_model(load_config(config.model, overrides), head, num_labels, generator)
    else:
        model = hf.load_model(
            config.model, head, new_head=True, num_labels=num_labels, overrides=overrides, generator=generator
        )
    if isinstance(model, Encoder):
        model = SentenceEncoder(model, settings.pooling, config.loss, config.temperature, config.symmetric)
    return model.train(), head


@torch.no_grad()
def whiten_pooler(model: LinearHead, features: Sequence[Feature], pad_id: int, max_tokens: int, seed: int) -> None:
    """Give the pooler of a model weights that make the states of a task's texts uncorrelated and of equal size.

    What tells texts of a task apart is often a small part of their states: a few directions have most of the variance,
    and a new head learns from those first. Through a whitened pooler it learns from all directions alike, as a linear
    probe does, and the layers below are left alone meanwhile.
    """
    pooler, is_training = model.encoder.pooler, model.training
    model.eval()
    chosen = rng(seed, "whitened pooler").permutation(len(features))[:MOST_FEATURES]
    some = [features[int(index)] for index in chosen]
    said = []
    for members in micro_batches(some, max_tokens):
        inputs = head_inputs(pad([some[i] for i in members], pad_id), pooler.weight.device)
        said.append(model.unpooled(model.states(inputs), inputs).double())
    model.train(is_training)
    states_NH = torch.cat(said)
    mean_H = states_NH.mean(0)
    moved_NH = states_NH - mean_H
    variances_H, directions_HH = torch.linalg.eigh(moved_NH.T @ moved_NH / len(moved_NH))
    floor = _RIDGE * variances_H.mean()
    factors_H = _DEVIATION / (variances_H.clamp(min=0) + floor).sqrt().clamp(min=_LEAST)
    weight_HH = (directions_HH * factors_H) @ directions_HH.T
    pooler.weight.copy_(weight_HH)
    pooler.bias.copy_(-weight_HH @ mean_H)


def is_below_head(name: str) -> bool:
    """Whether a parameter of a task model belongs to layers or embeddings."""
    return name.startswith("encoder.") and not name.startswith("encoder.pooler.")


def rate_factor(name: str, num_sets: int, decay: float) -> float:
    """Factor on the learning rate of a parameter of a task model: 1 for the head and its pooler.

    The last of the sets of layers gets ``decay``, the one below it its square and on, the embeddings one power more.
    """
    if not is_below_head(name):
        return 1.0
    part = name.split(".")
    if part[1] == "embeddings":
        return decay ** (num_sets + 1)
    return float(decay ** (num_sets - min(int(part[2]), num_sets - 1)))


@dataclass(frozen=True)
class WordDropout:
    """Hides pieces of training texts behind ``[MASK]``; separators and padding stay."""

    rate: float
    tokenizer: Tokenizer

    def __call__(self, ids_RS: Tensor) -> Tensor:
        """Return ids of which a share is hidden, drawn by torch's generator as dropout is."""
        is_special_RS = torch.isin(ids_RS, torch.tensor(self.tokenizer.special_ids, device=ids_RS.device))
        is_hidden_RS = torch.rand(ids_RS.shape, device=ids_RS.device) < self.rate
        return ids_RS.masked_fill(is_hidden_RS & ~is_special_RS, self.tokenizer.mask_id)


class TaskLoss(nn.Module):
    """A task model that gives the loss of a batch; a joint one above ``max_tokens`` is recomputed in parts."""

    def __init__(
        self,
        model: nn.Module,
        device: torch.device,
        precision: Precision,
        max_tokens: int | None = None,
        weight: float = 0.0,
        temperature: float = 1.0,
        word_dropout: WordDropout | None = None,
    ) -> None:
        super().__init__()
        self.model, self.device, self.precision = model, device, precision
        self.max_tokens, self.weight, self.temperature = max_tokens, weight, temperature
        self.word_dropout = word_dropout

    def forward(self, batch: Batch, num_labels: int, early: int | None) -> Tensor:
        """The loss of a batch by the step's number of labels; its mean with that at an exit."""
        with autocast(self.precision, self.device):
            loss = self.summed(batch) / num_labels
            if early is not None:
                loss = (loss + self.summed(batch, early) / num_labels) / 2
        return loss

    def summed(self, batch: Batch, num_layers: int | None = None) -> Tensor:
        """The loss over the labels of a batch; ``num_layers`` runs fewer layers."""
        assert batch.targets is not None, "training needs gold labels"
        targets = torch.from_numpy(batch.targets).to(self.device)
        teacher = None if batch.teacher is None else torch.from_numpy(batch.teacher).to(self.device)
        if isinstance(batch, JointBatch):
            return self._joint(batch, targets, teacher, num_layers) * batch.num_labels
        assert isinstance(self.model, TaskModel), "fine-tuning trains task models"
        inputs = self._inputs(batch)
        if teacher is None:
            return self.model.task_loss(inputs, targets, num_layers) * batch.num_labels
        assert isinstance(self.model, LinearHead), "the teacher was refused otherwise"
        outputs = self.model.named_outputs(inputs, num_layers)
        taught = teacher_loss(outputs["logits"], teacher, self.temperature, targets)
        return self.model.loss(outputs, targets).lerp(taught, self.weight) * batch.num_labels

    def _inputs(self, batch: PaddedBatch) -> HeadInputs:
        inputs = head_inputs(batch, self.device)
        hide = self.word_dropout
        return inputs if hide is None else inputs._replace(ids_RS=hide(inputs.ids_RS))

    def _joint(self, batch: JointBatch, targets: Tensor, teacher: Tensor | None, num_layers: int | None) -> Tensor:
        """The mean loss of texts that are compared with each other."""
        model = self.model
        assert isinstance(model, SentenceEncoder), "only vectors are compared with each other"
        encode: Callable[..., Tensor] = model.vectors
        if self.max_tokens is not None and sum(part.input_ids.size for part in batch.padded) > self.max_tokens:
            encode = partial(checkpoint, model.vectors, use_reentrant=False)
        parts = [encode(self._inputs(part), num_layers) for part in batch.padded]
        vectors = torch.cat(parts)[torch.from_numpy(batch.places).to(self.device)]
        vectors_BTH = vectors.view(batch.num_labels, batch.num_texts, -1)
        if teacher is None:
            return model.loss(vectors_BTH, targets)
        taught = match_loss(vectors_BTH, teacher)
        if batch.num_texts == 1:  # a bare sentence: the teacher alone knows something about it
            return taught
        return model.loss(vectors_BTH, targets).lerp(taught, self.weight)

    def freeze_unused(self, batch: Batch) -> None:
        """Take parameters out of training that DDP would wait for, such as an unused pooler's."""
        torch.autograd.backward(self(batch, 1, None))
        for parameter in self.parameters():
            parameter.requires_grad_(parameter.grad is not None)
        self.zero_grad(set_to_none=True)


def _recipe(config: FinetuneConfig, task: Task) -> tuple[Recipe, ModelConfig]:
    shape = load_config(config.model)
    recipe = recipe_for(task, shape, is_pretrained=config.start == "weights")
    if not HEADS[task.form.head(config.head)].dropout:
        recipe = replace(recipe, classifier_dropout=0.0)
    if isinstance(task, CustomTask) and task.has_bare_sentences and config.teacher is None:
        recipe = replace(recipe, dropout=_DROPOUT_OF_VIEWS)
    return recipe, shape


def _settings(config: FinetuneConfig) -> dict[str, object]:
    return {key: value for key, value in to_dict(config).items() if key not in _FREE_SETTINGS}
