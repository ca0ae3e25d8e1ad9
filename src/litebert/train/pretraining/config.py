"""The configuration of pretraining: every setting with its help text, checked when it is made."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from litebert.common.config import MOST_PROCESSES, check_range
from litebert.common.errors import ConfigError
from litebert.data.batches.example import ExampleConfig, Task
from litebert.model.config import ModelConfig, ModelSection
from litebert.optim.config import OptimizerConfig, default_learning_rate
from litebert.optim.schedule import ScheduleConfig
from litebert.predict.backend import Threads, num_threads
from litebert.train.trackers import tracker_names

Table = tuple[tuple[float, float], ...]
"""Rows of (share of the run, value): the value holds from that share on."""

MOST_EXAMPLES = 10_000_000
"""Of an evaluation."""

Trainable = Literal["all", "words"]
"""What a step trains: every weight, or word table, projection and masked-word head alone."""

Metric = Literal["mlm_loss", "mlm_accuracy", "sop_accuracy", "nsp_accuracy"]


@dataclass(frozen=True)
class InitialWeights:
    """How fresh weights begin; the defaults are the official ones."""

    attention: Literal["random", "neighbours"] = "random"
    """neighbours: each head begins by looking at one neighbour, which frees small models at once"""
    neighbour_heads: int = 8
    """most heads that begin at a neighbour; the others look everywhere, as [CLS] needs it"""
    words: Literal["random", "contexts"] = "random"
    """contexts: words that stand near the same words in the shards begin alike; takes seconds"""
    word_bias: Literal["zero", "frequencies"] = "zero"
    """frequencies: the output bias begins at the log frequency of each word in the shards"""

    def __post_init__(self) -> None:
        check_range(self, "1 or more", "neighbour_heads", table="initial")


@dataclass(frozen=True)
class Objective:
    """What is learned, and how much each part weighs; examples.task chooses the sentence task."""

    mlm_weight: float = 1.0
    """weight of the masked-word loss"""
    sentence_weight: float = 1.0
    """weight of the sentence loss (unused without a sentence task)"""
    bag_weight: float = 0.0
    """weight of the bag-of-words loss: [CLS] predicts the words of its example; for small models"""
    bag_frequency: float = 1e-4
    """words more frequent than this count less in the bag: (bag_frequency / frequency) ** bag_exponent"""
    bag_exponent: float = 0.5
    """how much less; 0: all words count alike"""
    bag_words: Literal["all", "masked"] = "all"
    """words in the bag: all of the example, or those that are masked"""
    pairs_every_steps: int = 0
    """every this many steps a batch of short pairs without masks, for the sentence loss (and the \
bag) alone, joins the step; 0: never"""
    pairs_task: Literal["sop", "nsp", "both"] | None = None
    """sentence task of these pairs, if not examples.task: with examples.task none, words are masked in single texts"""
    pairs_length: int = 64
    """longest of these pairs in tokens"""
    pairs_batch_size: int = 32
    """pairs of full length in such a batch, over all processes"""
    teacher_weight: float = 1.0
    """weight of the teacher's loss: one less the cosine of [CLS] with the teacher's vector"""
    teacher_every_steps: int = 1
    """every this many steps a batch of the teacher's texts joins the step"""
    teacher_batch_size: int = 64
    """texts in such a batch, over all processes"""

    def __post_init__(self) -> None:
        weights = ("mlm_weight", "sentence_weight", "bag_weight", "bag_exponent", "teacher_weight")
        check_range(self, "0 or more", *weights, "pairs_every_steps", table="objective")
        check_range(self, "more than 0", "bag_frequency", table="objective")
        counts = ("pairs_length", "pairs_batch_size", "teacher_every_steps", "teacher_batch_size")
        check_range(self, "1 or more", *counts, table="objective")


@dataclass(frozen=True)
class Curriculum:
    """Settings that change while training: tables of [share of the run, value] rows.

    On the command line `--curriculum.layers 0 2 0.5 4` is a table of two rows; the flag with nothing after it empties
    the table of a recipe.
    """

    layers: Table = ()
    """how many layers run; layers with parameters of their own begin as copies of those that run. \
As a flag `0 2 0.5 4` is two rows, and nothing empties a recipe's table: as for all tables"""
    length: Table = ()
    """longest example in tokens"""
    batch_size: Table = ()
    """examples per step"""
    mask_rate: Table = ()
    """share of the tokens that is predicted"""
    task: tuple[tuple[float, Task], ...] = ()
    """the sentence task, such as nsp first and sop later"""
    sentence_factor: Table = ()
    """factor on objective.sentence_weight"""
    bag_factor: Table = ()
    """factor on objective.bag_weight"""
    lr_factor: Table = ()
    """factor on the learning rate, besides the schedule"""
    trainable: tuple[tuple[float, Trainable], ...] = ()
    """words: word table, projection and masked-word head alone; what rests keeps its weights and \
a step costs less, for a new vocabulary on old weights"""

    def __post_init__(self) -> None:
        for item in fields(self):
            table = getattr(self, item.name)
            shares = [row[0] for row in table]
            if any(len(row) != 2 for row in table) or shares != sorted(shares):
                raise ConfigError(
                    f"curriculum.{item.name} is {[list(row) for row in table]}: give rows of "
                    "[share of the run, value] in ascending order."
                )
            if table and (shares[0] != 0.0 or shares[-1] >= 1.0):
                raise ConfigError(f"curriculum.{item.name} covers shares {shares}: begin with 0 and stay below 1.")


@dataclass(frozen=True)
class Evaluation:
    """When and on how much of the dev documents the model is evaluated."""

    every_steps: int = 1000
    """steps between evaluations; 0: only at the end"""
    examples: int = 512
    """examples of each sentence task in an evaluation while training"""
    final_examples: int = 4096
    """examples of each sentence task in the evaluation at the end"""
    batch_size: int = 32
    """examples evaluated at once"""
    metric: Metric = "mlm_loss"
    """decides which checkpoint is the best"""
    probe: str | None = None
    """TASK:DIR, such as sst2:glue: what linear models on the frozen states reach on a task, in every evaluation"""
    probe_examples: int = 2000
    """training examples that these are fitted on"""

    def __post_init__(self) -> None:
        check_range(self, "0 or more", "every_steps", table="evaluation")
        sizes = ("examples", "final_examples", "batch_size", "probe_examples")
        check_range(self, "1 or more", *sizes, table="evaluation", most=MOST_EXAMPLES)


@dataclass(frozen=True)
class Checkpoints:
    """When the state of training is saved and how much is kept."""

    every_steps: int = 1000
    """steps between checkpoints; 0: only at the end and when interrupted"""
    keep_last: int = 2
    """number of latest checkpoints kept, besides the best"""

    def __post_init__(self) -> None:
        check_range(self, "0 or more", "every_steps", "keep_last", table="checkpoint")


@dataclass(frozen=True)
class PretrainConfig:
    """Everything that decides a pretraining run.

    The run ends when the first of steps, tokens and budget is used up; progress, which drives the schedule and the
    curricula, is the largest of the shares used.
    """

    data: Path
    """folder of token shards"""
    out: Path
    """run folder to write"""
    extra_data: tuple[Path, ...] = ()
    """further folders of shards to mix in, made with the same tokenizer"""
    weights: tuple[float, ...] = ()
    """how much of each corpus is drawn, data first; default: by size"""
    dev_data: tuple[Path, ...] = ()
    """folders of shards to evaluate on, all of their documents, instead of the dev documents of \
the data; nothing is learned from them"""
    steps: int | None = None
    """length of the run in steps"""
    tokens: int | None = None
    """length of the run in tokens"""
    budget: str | None = None
    """length of the run in wall-clock time, such as 90s, 30m or 2h"""
    seed: int = 0
    """all randomness comes from it"""
    track: str = "tensorboard"
    """where the numbers go besides metrics.jsonl: tensorboard, wandb, mlflow, with commas"""
    resume: Literal["no", "auto"] = "no"
    """auto: go on from the last good checkpoint in the run folder, if there is one"""
    verify: bool = False
    """check every shard against its checksum at the start; without it, of more than 4 GB a tenth"""
    init_from: str | None = None
    """model folder, run folder or hub name whose shape and weights are the start, with the same \
vocabulary: continued pretraining"""
    teacher: Path | None = None
    """Parquet or JSON lines with the columns text and embedding: [CLS] of these texts learns to \
say what the sentence encoder that made the vectors says"""
    batch_size: int = 256
    """examples of full length per step over all processes; shorter ones come in larger numbers"""
    accumulation: int = 1
    """each micro-batch in this many shares, for less memory: the same batches, the same losses"""
    workers: int = 0
    """background processes that prepare batches; for GPUs: on CPUs they gain little"""
    parallel: Literal["auto", "none", "ddp", "fsdp"] = "auto"
    """how torchrun's processes share the work; auto: ddp if there is more than one"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where to train"""
    threads: Threads = "auto"
    """processor threads; auto: all, fewer while they wait for each other; a number stays as it is, to the bit"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 autocast on GPUs, float32 on CPUs, where bfloat16 is faster on processors \
that have instructions for it; norms and losses are always float32"""
    compile: bool = False
    """compile the model with torch.compile"""
    activation_checkpointing: bool = False
    """recompute activations in the backward pass: less memory, more time"""
    log_every_steps: int = 10
    """steps between lines in metrics.jsonl"""
    max_nonfinite: int = 10
    """training stops after this many steps in a row with a loss or gradient that is not finite"""
    average: float = 0.0
    """keep a running average of the weights with this decay, such as 0.999, beside those that are \
trained: it is what evaluations and the model folder hold; 0: none"""
    plateau_share: float = 0.3
    """share of the run after which a model that has learned only word frequencies is reported"""
    model: ModelSection = field(default_factory=ModelSection)
    """the model"""
    initial: InitialWeights = field(default_factory=InitialWeights)
    """how fresh weights begin"""
    examples: ExampleConfig = field(default_factory=ExampleConfig)
    """how text becomes examples; micro_batch_size is the most on a device at once, unless cut by accumulation"""
    objective: Objective = field(default_factory=Objective)
    """what is learned"""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """the optimiser"""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """the learning rate over the run"""
    curriculum: Curriculum = field(default_factory=Curriculum)
    """settings that change while training"""
    evaluation: Evaluation = field(default_factory=Evaluation)
    """evaluation on the dev documents"""
    checkpoint: Checkpoints = field(default_factory=Checkpoints)
    """saving the state of training"""

    def __post_init__(self) -> None:
        if self.steps is None and self.tokens is None and self.budget is None:
            raise ConfigError("the run has no length: set --steps, --tokens or --budget.")
        check_range(self, "1 or more", "steps", "tokens", "accumulation", "log_every_steps", "max_nonfinite")
        check_range(self, "1 or more", "batch_size", most=10_000_000)
        check_range(self, "0 or more", "workers", most=MOST_PROCESSES)
        check_range(self, "0 or more and less than 1", "average")
        num_threads(self.threads)
        tracker_names(self.track)
        if self.budget is not None:
            parse_duration(self.budget)
        if self.weights and len(self.weights) != len(self.corpora):
            raise ConfigError(
                f"weights has {len(self.weights)} values for {len(self.corpora)} corpora: "
                "give one for data and one for each of extra_data."
            )
        warmup = self.schedule.warmup_steps
        if warmup is not None and self.steps is None:
            raise ConfigError(f"schedule.warmup_steps is {warmup} but there is no --steps: use schedule.warmup_share.")
        if self.steps is not None and (warmup or 0) > self.steps:
            raise ConfigError(
                f"schedule.warmup_steps is {warmup} but the run has only {self.steps} steps: "
                "shorten the warm-up, or use schedule.warmup_share."
            )

    @property
    def budget_s(self) -> float | None:
        """The wall-clock budget in seconds."""
        return None if self.budget is None else parse_duration(self.budget)

    @property
    def corpora(self) -> tuple[Path, ...]:
        """All folders of shards."""
        return (self.data, *self.extra_data)

    @property
    def inputs(self) -> list[tuple[str, Path | str | None]]:
        """What the run reads, by flag: none of it may lie in the run folder."""
        several = {"--extra-data": self.extra_data, "--dev-data": self.dev_data}
        listed = [(flag, folder) for flag, folders in several.items() for folder in folders]
        return [("--data", self.data), *listed, ("--init-from", self.init_from), ("--teacher", self.teacher)]

    @property
    def sentence_task(self) -> Task:
        """What the sentence head learns: the task of the examples or, where these are single texts, of short pairs."""
        pairs = self.objective.pairs_task if self.objective.pairs_every_steps else None
        return pairs or "none" if self.examples.task == "none" else self.examples.task

    def learning_rate(self, model: ModelConfig) -> float:
        """The peak learning rate, with the default resolved for this model."""
        if self.optimizer.lr is not None:
            return self.optimizer.lr
        table = self.curriculum
        layers = int(table.layers[0][1]) if table.layers else model.num_layers
        batch = int(table.batch_size[-1][1]) if table.batch_size else self.batch_size
        return default_learning_rate(self.optimizer.name, batch, model.hidden_size, layers)


def parse_duration(text: str) -> float:
    """Seconds of a duration such as ``90s``, ``30m``, ``1h30m`` or ``45`` (seconds)."""
    text = text.strip().lower()
    timed = f"{text}s" if text.replace(".", "", 1).isdigit() else text
    part, units = r"(\d+(?:\.\d+)?)\s*([smhd])\s*", {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    if not re.fullmatch(f"({part})+", timed):
        raise ConfigError(f"'{text}' is not a duration: write for example 90s, 30m, 2h or 1h30m.")
    seconds = sum(float(number) * units[unit] for number, unit in re.findall(part, timed))
    if seconds <= 0.0:
        raise ConfigError(f"a duration of '{text}' leaves no time: use more than 0.")
    return seconds
