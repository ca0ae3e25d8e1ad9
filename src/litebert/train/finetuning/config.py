"""The configuration of fine-tuning; what is left out comes from the task's recipe, a TOML file."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Literal

from litebert.bundled import BUNDLED
from litebert.common.config import check_range, load_toml, recipe_path
from litebert.common.errors import ConfigError, suggestion
from litebert.common.ownership import Inputs
from litebert.common.runs import BASELINES
from litebert.model.config import ModelConfig, Pooling, ScoreLoss
from litebert.predict.backend import Threads, num_threads
from litebert.tasks.base import Task
from litebert.tasks.registry import TASK_NAMES, input_columns
from litebert.train.trackers import tracker_names

Pooler = Literal["weights", "whitened"]


@dataclass(frozen=True)
class FinetuneConfig:
    """Everything that decides a fine-tuning run."""

    task: str
    """a benchmark (names above), a TOML file that describes your own task, or a table of it"""
    _: KW_ONLY
    out: Path
    """run folder to write"""
    model: str = BUNDLED
    """model folder, run folder or hub name to start from (pretrained, or fine-tuned on another \
task); default: the small model that comes with litebert"""
    data: Path | None = None
    """folder with the task's files (or the GLUE root), or one table of an own task, which is cut \
in two; own tasks may leave it out"""
    steps: int | None = None
    """length of the run in steps; default: the recipe's"""
    epochs: float | None = None
    """length of the run in passes over the training data, in place of steps"""
    lr: float | None = None
    """peak learning rate"""
    batch_size: int | None = None
    """examples per step (windows, for spans)"""
    warmup_steps: int | None = None
    """steps until the peak; default: the recipe's share of the run"""
    dropout: float | None = None
    """dropout inside the encoder"""
    classifier_dropout: float | None = None
    """dropout before the head"""
    word_dropout: float | None = None
    """share of the pieces of each training text that [MASK] hides, others in every step: a model that has read masks \
learns from the words that are left"""
    pooling: Pooling | None = None
    """what a classifier reads: the state of [CLS], or the mean of all tokens, which the folder \
records and transformers refuses; of texts to compare the recipe takes the mean"""
    pooler: Pooler | None = None
    """what the classifier's pooler begins as: the weights of the folder, or whitened, by which the states of the \
training texts become uncorrelated and equally large, so that a new head learns from all of them at once"""
    lr_decay: float | None = None
    """factor on the learning rate for each set of layers below the head, and once more for the \
embeddings; 1: one rate for all"""
    head_share: float | None = None
    """share of the run in which only the head and its pooler are trained, before all is"""
    max_length: int | None = None
    """longest input in tokens"""
    eval_every_steps: int | None = None
    """steps between evaluations on dev; the best of them is the result"""
    patience: int | None = None
    """stop after this many evaluations without a better one; default: train to the end"""
    bias_correction: bool | None = None
    """Adam's correction of its running means; off in the paper's recipes, on in the others"""
    weight_decay: float = 0.01
    """decoupled weight decay; biases and norms are excluded"""
    clip_norm: float = 1.0
    """largest global norm of the gradient"""
    seed: int = 0
    """order of examples, dropout and the new head come from it"""
    seeds: int = 1
    """runs with seed, seed + 1, ...; the result is their median"""
    loss: ScoreLoss = "cosine"
    """for pairs with a score: the squared error of the cosine, or whether cosines are in the \
order of the scores (cosent)"""
    temperature: float = 0.05
    """for texts to compare: cosines are divided by it, among the other texts of a step and for cosent"""
    symmetric: bool = False
    """for pairs of equals: find the first text by the second one too"""
    teacher: str | None = None
    """learn what this model says too: a model or ONNX folder of the same task (classes, label \
sets, numbers, choices, texts to compare); or, for texts to compare, a Parquet file with the \
columns text and embedding, as `litebert embed` writes it"""
    teacher_weight: float = 0.5
    """share of the teacher in the loss, the rest is that of the labels; bare sentences learn from the teacher alone"""
    teacher_temperature: float = 2.0
    """softens the probabilities of classes and flags, the teacher's and the student's"""
    teacher_text: Path | None = None
    """rows without labels, in the columns of the task's own files: the teacher says the labels"""
    head: Literal["auto", "paper", "classic"] = "auto"
    """for spans: the paper's head with answerability (auto for squad2) or two plain logits"""
    start: Literal["weights", "random"] = "weights"
    """start from the folder's weights, or from random ones of the same shape (a baseline)"""
    baseline: tuple[str, ...] = ()
    """what to compare with besides the most frequent answer: words (a bag of words with logistic regression, or ridge \
for numbers; cosines of tf-idf for texts to compare), random (the same fine-tuning from random weights); of texts to \
compare also untrained (the vectors before training) and bm25 (needs bm25s); with commas: words,random"""
    train_exits: bool = False
    """train the head at a quarter, half and three quarters of the layers too, for half a forward pass more: `--depth` \
may then stop there, and the mean dev score over the depths picks the weights (models that share all parameters)"""
    keep_checkpoints: int = 1
    """model folders kept, best first: model, model-2, ...; more than one for ensembles"""
    max_train_examples: int | None = None
    """learn from this many examples only, drawn with seed 0"""
    max_dev_examples: int | None = None
    """evaluate on this many examples only while training; the final score uses all"""
    max_scored_examples: int | None = None
    """score this many dev examples only, drawn with seed 0; for a look at large dev splits"""
    max_tokens: int = 4096
    """tokens processed at once, padding included; a step of more is accumulated"""
    strict: bool = False
    """stop at the first bad row"""
    allow_unknown: bool = False
    """go on where the vocabulary does not know most of the text"""
    track: str = "tensorboard"
    """where the numbers go besides metrics.jsonl: tensorboard, wandb, mlflow, with commas"""
    resume: Literal["no", "auto"] = "no"
    """auto: go on from the last good checkpoint in the run folder, if there is one"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where to train"""
    threads: Threads = "auto"
    """processor threads; auto: all, fewer while they wait for each other; a number stays as it is, to the bit"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 autocast on GPUs, float32 on CPUs"""
    log_every_steps: int = 10
    """steps between lines in metrics.jsonl"""

    def __post_init__(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise ConfigError(f"both --steps {self.steps} and --epochs {self.epochs}: give one")
        check_range(self, "1 or more", "steps", "eval_every_steps", "log_every_steps", "patience")
        check_range(self, "1 or more", "max_train_examples", "max_dev_examples", "max_scored_examples")
        check_range(self, "1 or more", "batch_size", "max_tokens", most=10_000_000)
        check_range(self, "8 or more", "max_length", most=1 << 20)
        check_range(self, "1 or more", "seeds", "keep_checkpoints", most=1_000)
        names = tuple(dict.fromkeys(n for part in self.baseline for n in part.split(",") if n))
        object.__setattr__(self, "baseline", names)
        for name in names:
            if name not in BASELINES:
                near = suggestion(name, BASELINES) or f" Known: {', '.join(BASELINES)}."
                raise ConfigError(f"baseline '{name}' is not known.{near}")
        if "random" in names and self.start == "random":
            raise ConfigError("the run itself starts from random weights: leave --baseline random")
        num_threads(self.threads)
        tracker_names(self.track)
        check_range(self, "more than 0", "epochs", "lr", "lr_decay", "temperature", "teacher_temperature")
        check_range(self, "0 to 1", "teacher_weight")
        if self.teacher_text is not None and self.teacher is None:
            raise ConfigError(f"--teacher-text {self.teacher_text} needs a --teacher to label it")
        check_range(self, "0 or more and less than 1", "dropout", "classifier_dropout", "word_dropout", "head_share")

    @property
    def inputs(self) -> Inputs:
        """What the run reads, by flag: none of it may lie in the run folder."""
        taught: Inputs = [("--teacher", self.teacher), ("--teacher-text", self.teacher_text)]
        return [("--model", self.model), ("--data", self.data), ("the task file", self.task), *taught]


PAPER_HIDDEN_SIZE = 768  # models narrower than ALBERT-base learn with the small recipes
NUM_EVALUATIONS = 10  # on dev, evenly spread, where neither config nor recipe has an interval
_NEEDS_EVERY_WORD = ("cola",)  # whether words make a sentence cannot be told when some are hidden
_FILE_OF_TASK = {name: name for name in TASK_NAMES} | {
    # RACE learns by the setting for v2 models, on which the row of Table 14 (race-v1) diverges.
    **dict.fromkeys(("race", "race-middle", "race-high"), "race-v2"),
    "ax": "mnli",
}


@dataclass(frozen=True)
class Recipe:
    """What a recipe file says; every field is one of ``FinetuneConfig`` and documented there."""

    lr: float
    batch_size: int
    dropout: float
    max_length: int
    bias_correction: bool
    classifier_dropout: float = 0.1
    word_dropout: float = 0.0
    pooling: Pooling = "cls"
    pooler: Pooler = "weights"
    lr_decay: float = 1.0
    head_share: float = 0.0
    steps: int | None = None
    epochs: float | None = None
    warmup_steps: int | None = None
    eval_every_steps: int | None = None


def recipe_for(task: Task, shape: ModelConfig, *, is_pretrained: bool = True) -> Recipe:
    """The recipe of a task for a model of this shape: Table 14, or one for the kind of task.

    Those of small models for pairs and for classes of texts use what weights know; random ones have nothing to use.
    """
    kind = task.form.recipe
    if shape.hidden_size < PAPER_HIDDEN_SIZE:
        name = f"small-{kind}"
        if is_pretrained and kind in ("classification", "regression") and "text_pair" in input_columns(task):
            name = "small-pairs"
        elif is_pretrained and kind == "classification" and task.name not in _NEEDS_EVERY_WORD:
            name = "small-texts"
    else:
        name = _FILE_OF_TASK.get(task.name, f"base-{kind}")
    return load_toml(Recipe, recipe_path("finetune", name))


@dataclass(frozen=True, kw_only=True)
class Settings(Recipe):
    """A recipe with everything decided."""

    steps: int
    warmup_steps: int
    eval_every_steps: int
    steps_per_epoch: int

    @classmethod
    def max_length_of(cls, config: FinetuneConfig, recipe: Recipe, task_max_length: int, max_positions: int) -> int:
        """The longest input: as asked, or what recipe, task and model allow."""
        if config.max_length is None:
            return min(recipe.max_length, task_max_length, max_positions)
        if not 8 <= config.max_length <= max_positions:
            raise ConfigError(f"max_length is {config.max_length}: the model reads 8 to {max_positions} tokens.")
        return config.max_length

    @classmethod
    def resolve(cls, config: FinetuneConfig, recipe: Recipe, max_length: int, num_features: int) -> Settings:
        """The settings: what the config says, else the recipe, for this much data."""
        asked = {field.name: getattr(config, field.name) for field in fields(Recipe)}
        given = {name: value for name, value in asked.items() if value is not None}
        merged = replace(recipe, **{**given, "max_length": max_length})
        steps_per_epoch = math.ceil(num_features / merged.batch_size)
        length = config if config.steps or config.epochs else recipe
        steps = length.steps or max(1, round((length.epochs or 1) * steps_per_epoch))
        warmup_steps = config.warmup_steps
        if warmup_steps is None or warmup_steps >= steps:
            # A run shortened by --steps warms up for the recipe's share of it.
            warmup_steps = round(0.1 * steps)
            if recipe.steps is not None and recipe.warmup_steps is not None:
                warmup_steps = round(recipe.warmup_steps / recipe.steps * steps)
        every = merged.eval_every_steps
        if every is None or (every > steps and config.eval_every_steps is None):
            every = max(1, steps // NUM_EVALUATIONS)
        decided = {"steps": steps, "warmup_steps": warmup_steps, "eval_every_steps": every}
        return cls(**{**vars(merged), **decided, "steps_per_epoch": steps_per_epoch})
