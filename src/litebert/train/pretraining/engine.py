"""Pretraining: shards to a trained model folder, resumable at every checkpoint to the bit."""

from __future__ import annotations

import math
import time
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from litebert.common.files import sha256_file
from litebert.common.limits import check_regular
from litebert.common.progress import format_duration
from litebert.common.rng import derived_seed
from litebert.common.signals import StopRequest
from litebert.data.batches.example import Batch
from litebert.dist.replica import parallelize
from litebert.dist.runtime import Process, has_fast_bfloat16, uses_bfloat16
from litebert.model.sharing import plan_of
from litebert.optim.build import build_optimizers
from litebert.optim.schedule import factor
from litebert.train.average import WeightAverage
from litebert.train.display import Display, StatusLine, display
from litebert.train.estimate import measured_gemm_rate, step_flops
from litebert.train.loop import Cadence, Loop, Outcome, Step, training_process
from litebert.train.pretraining import curriculum, evaluate, objective, setup
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.feed import Feed, rows_of, shares_of, without_masks
from litebert.train.pretraining.figures import StepWork, averages_of, describe_dev
from litebert.train.pretraining.initial import deepen, new_sets
from litebert.train.pretraining.results import write_results
from litebert.train.probe import LiveProbe
from litebert.train.run import Run

SLOW_STEP_S = 30.0  # slower steps are announced: the recipe is probably not made for this machine
_WORDS = ("encoder.embeddings.word.", "encoder.embeddings.projection.", "mlm.")
"""What goes on learning while the rest of the weights rests (`curriculum.trainable`)."""


@dataclass(frozen=True)
class PretrainResult:
    """How a run ended."""

    run: Path
    model: Path | None  # the model folder; None if the run was interrupted
    step: int
    tokens: int
    elapsed_s: float  # time in the training loop
    scores: evaluate.Scores | None  # the evaluation at the end; None without dev documents or if interrupted
    interrupted_by: int = 0  # signal that stopped the run, 0 if it came to its end


def pretrain(config: PretrainConfig, *, quiet: bool = False) -> PretrainResult:
    """Train a model on token shards and write a run folder with the model in it."""
    with (
        training_process("pretraining", config, config.parallel) as (process, stop),
        closing(display(is_main=process.is_main, quiet=quiet)) as screen,
    ):
        return Pretraining(config, process, stop, screen).run()


class Pretraining:
    """One pretraining run on this process; :func:`pretrain` makes and runs it."""

    def __init__(self, config: PretrainConfig, process: Process, stop: StopRequest, screen: Display) -> None:
        self.config, self.process, self.stop, self.screen = config, process, stop, screen
        self.corpora = corpora = setup.open_corpora(config)
        shards = (*(shards for shards, _ in corpora.train), *corpora.dev)
        if note := setup.verify_corpora(shards, config.seed, config.verify, process):
            screen.note(note)
        self.shape = shape = setup.resolve_model(config, corpora)
        # Before the model is wrapped: there, processes that disagree fail or wait for each other.
        identity, keep_last = setup.pretraining_identity(config, shape), config.checkpoint.keep_last
        prints = corpora.fingerprints()
        if config.teacher is not None:
            check_regular(config.teacher)
            prints["teacher"] = sha256_file(config.teacher)
        self.record = Run(config, evaluate.RunState, identity, prints, keep_last, process, screen)
        model = setup.build_pretraining_model(config, shape, corpora).to(process.device)
        self.taught = setup.taught_texts(config, shape, corpora.tokenizer, model)
        if config.compile:
            model.compile(dynamic=True)  # lengths and numbers of masks differ
        # Layers that run only later have no gradient until then.
        grows = bool(config.curriculum.layers) and shape.sharing != "all"
        self.replica = parallelize(model, config.parallel, process, some_unused=grows)
        # What does not always learn.
        rest = [p for n, p in model.named_parameters() if not n.startswith(_WORDS)]
        self.resting = [p for p in rest if config.curriculum.trainable and p.requires_grad]
        self.peak_lr = config.learning_rate(shape)
        optimizers = build_optimizers(model.named_parameters(), config.optimizer, self.peak_lr)
        self.average = WeightAverage(model, config.average) if config.average else None
        # For evaluations and results: the weights that the model folder gets.
        self.finished = nullcontext if self.average is None else self.average.in_place
        self.state = self.record.restore(model, optimizers, self.average)
        feed = partial(
            Feed,
            corpora.train,
            config.examples,
            vocabulary=corpora.vocabulary,
            rank=process.rank,
            world_size=process.world_size,
            accumulation=config.accumulation,
            num_workers=config.workers,
        )
        self.feed = feed(config.seed, position=self.state.feed)
        self.pairs = feed(derived_seed(config.seed, "short pairs"), position=self.state.pairs)
        counts, wanted = corpora.unigram_counts(), config.evaluation
        bag = (config.objective.bag_frequency, config.objective.bag_exponent)
        weights = objective.piece_weights(counts, corpora.tokenizer.special_ids, *bag)
        self.piece_weights = weights.to(process.device)
        size, positions, probe = wanted.batch_size, shape.max_positions, None
        self.dev = evaluate.DevSet(corpora.dev, counts, config.examples, corpora.vocabulary, size)
        if wanted.probe is not None:
            probe = LiveProbe(wanted.probe, corpora.tokenizer, positions, wanted.probe_examples)
        self.evaluator = evaluate.Evaluator(config, self.replica, self.dev, self.record, self.finished, probe)
        narrow = uses_bfloat16(config.precision, process.device)
        self.gemm_rate = measured_gemm_rate(str(process.device), narrow)
        self.since_line: list[tuple[StepWork, Outcome]] = []
        """steps since the last line of metrics"""
        every, most = config.checkpoint.every_steps, config.max_nonfinite
        cadence = Cadence(config.log_every_steps, wanted.every_steps, every, max_nonfinite=most)
        clip_norm, threads = config.optimizer.clip_norm, config.threads
        self.loop = Loop(self, self.record, self.replica, optimizers, clip_norm, cadence, stop, threads)

    def run(self) -> PretrainResult:
        """Train to the end, or until a signal asks to stop."""
        loss = self._loss(1, 0, 1, 1, self._stage())
        model, batch = self.replica.module_for_training, objective.smallest_batch()
        self.replica.rehearse(lambda: loss(model, batch)[0])
        self._say_what_may_disappoint()
        with closing(self.feed), closing(self.pairs):
            signum = self.loop.train()
        if not signum:
            # A run may be too short for its last stage. The state is left alone: the checkpoint is written already, and
            # a run that is resumed at its end comes here again.
            self._deepen(self.shape.num_layers)
        if not signum and self.dev.has_documents:
            try:
                self.evaluator.at_the_end(self.shape.num_layers, self.share(), self.stop)
            except evaluate.EvaluationStopped:
                signum = self.loop.interrupt()
        out, state, scores, folder = self.config.out, self.state, self.evaluator.latest, None
        if signum:
            scores = None
        else:
            with self.finished():
                folder = write_results(out, self.replica, self.corpora, self.dev, state, scores)
        self.record.finish(keep_checkpoints=True)
        return PretrainResult(out, folder, state.step, state.tokens, state.elapsed_s, scores, signum)

    def share(self) -> float:
        """The share of the run that is done."""
        state = self.state
        return curriculum.progress_share(self.config, state.step, state.tokens, state.elapsed_s)

    def next_step(self) -> Step[Batch]:
        """This process's part of the next step."""
        config, process, state = self.config, self.process, self.state
        stage = self._stage()
        self._deepen(stage.layers)
        state.depth = max(state.depth, stage.layers)
        scheduled = factor(config.schedule, self.share(), config.steps, state.step)
        lr_factor = stage.lr_factor * scheduled
        started = time.perf_counter()
        batches = self.feed.take(stage)
        every, short = config.objective.pairs_every_steps, None
        if every and state.step % every == 0:
            short = curriculum.pairs_stage(config, stage)
            batches += [without_masks(batch) for batch in self.pairs.take(short)]
        lessons = self._lessons()
        batches += lessons
        wait_s = time.perf_counter() - started
        # A row without an address only stands in for an example.
        num_examples, num_taught = (sum(len(batch.addresses) for batch in part) for part in (batches, lessons))
        counts = (*objective.counts_of(batches), num_examples, num_taught)
        predictions, pairs, tokens, examples, taught = (int(n) for n in process.sum(counts))
        loss = self._loss(predictions, pairs, examples, taught, stage)
        bag, flops_of = loss.bag, partial(objective.batch_flops, self.shape, layers=stage.layers)
        flops = sum(flops_of(batch, has_bag=bag is not None) for batch in batches)
        rests = self.resting if stage.trainable == "words" else []
        if process.world_size == 1:  # most of their gradients' work, a third, is saved
            flops *= 2 / 3 if rests else 1
            for parameter in self.resting:
                parameter.requires_grad_(not rests)
        self.now = StepWork(stage, lr_factor, predictions, pairs, tokens, wait_s, flops, bag, short, taught)
        seeds = [
            derived_seed(config.seed, "dropout", state.step, process.rank, number) for number in range(len(batches))
        ]
        state.feed, state.pairs = self.feed.position, self.pairs.position
        return Step(batches, loss, seeds, lr_factor, tokens, rests)

    def count(self, outcome: Outcome) -> None:
        """Note a step for the next line of metrics, and in the average of the weights."""
        self.since_line.append((self.now, outcome))
        if self.average is not None:
            self.average.update(self.state.step)

    def describe_skipped(self, outcome: Outcome) -> dict[str, object]:
        """The loss of a step and where its examples came from."""
        mlm_loss = outcome.sums[0] / max(1, self.now.predictions)
        found = {"mlm_loss": str(mlm_loss), **self.feed.addresses(self.now.stage)}
        if self.now.short is not None:
            found["pairs"] = self.pairs.addresses(self.now.short)
        return found

    def line(self) -> dict[str, object] | None:
        """Averages since the last line, and where the run stands."""
        if not self.since_line:
            return None
        state, stage = self.state, self.now.stage
        averages = averages_of(self.since_line, self.config.objective, self.gemm_rate)
        self.since_line = []
        return {
            **averages,
            **({"trainable": stage.trainable} if self.resting else {}),
            "lr": self.now.lr_factor * self.peak_lr,
            "tokens": state.tokens,
            "elapsed_s": round(state.elapsed_s, 3),
            "progress": round(self.share(), 6),
            "layers": stage.layers,
            "length": stage.length,
            "batch_size": stage.batch_size,
            "mask_rate": stage.mask_rate,
            "epoch": round(self.feed.epochs()[0], 4),
            "bytes_per_step": self.replica.bytes_per_step(),
            "nonfinite": state.nonfinite_total,
        }

    def status(self, share: float, eta_s: float) -> StatusLine | None:
        """Averages since the last line, the stage and the latest evaluation."""
        if not self.since_line:
            return None
        stage = self.now.stage
        values = averages_of(self.since_line, self.config.objective, self.gemm_rate)
        texts = {
            "mlm_loss": "loss {:.2f}",
            "mlm_accuracy": "words {:.1%}",
            "sentence_accuracy": f"{stage.task or self.config.sentence_task} {{:.1%}}",
            "bag_loss": "bag {:.2f}",
            "teacher_cosine": "teacher {:.2f}",
            "tokens_per_s": "{:,.0f} tokens/s",
            "gemm_share": "{:.0%} of GEMM",
        }
        figures = [text.format(values[name]) for name, text in texts.items() if name in values]
        settings = f"{stage.layers} layers, {stage.batch_size} x {stage.length}"
        settings += ", words alone" * (stage.trainable == "words")
        dev = describe_dev(self.evaluator.latest)
        if "cls" in self.evaluator.probed:
            dev += f", probe of [CLS] {self.evaluator.probed['cls']:.3g}"
        return StatusLine(share, self.state.step, eta_s, tuple(figures), settings, dev)

    def evaluate(self, *, is_last: bool) -> bool:
        """Evaluate with the layers that run now; the last time comes after the loop."""
        if is_last or not self.dev.has_documents:
            return False
        return self.evaluator.during(self.now.stage.layers, self.share())

    def remedy(self) -> str:
        """A resumed run may have another learning rate."""
        return (
            "lower the learning rate and go on with --resume auto; if it stops again, delete "
            f"step-{self.state.step} there first"
        )

    def _stage(self) -> curriculum.Stage:
        return curriculum.stage_at(self.config, self.shape, self.share())

    def _deepen(self, layers: int) -> None:
        """Let layers of their own begin as copies of those that have run; not loaded ones."""
        if 0 < self.state.depth < layers and self.config.init_from is None:
            sets = new_sets(plan_of(self.shape), self.state.depth, layers)
            average = {} if self.average is None else self.average.tensors
            deepen(self.replica.model, self.loop.optimizers, sets, average)

    def _lessons(self) -> list[Batch]:
        """This process's share of the texts that the teacher has to say something about."""
        every = self.config.objective.teacher_every_steps
        if self.taught is None or self.state.step % every:
            return []
        batch = self.taught.batch(self.state.step // every)
        own = rows_of(batch, self.process.rank, self.process.world_size)
        return shares_of(own, self.config.accumulation)

    def _loss(
        self, predictions: int, pairs: int, examples: int, taught: int, stage: curriculum.Stage
    ) -> objective.PretrainingLoss:
        """The loss of a step with these counts; the bag of words is part of it if it has weight."""
        config, device, bag = self.config, self.process.device, None
        if weight := config.objective.bag_weight * stage.bag_factor:
            masked_only = config.objective.bag_words == "masked"
            bag = objective.Bag(weight, examples, self.piece_weights, masked_only)
        # A step without pairs has a sentence loss of zero: every process and every step trains the same parameters.
        pairs = max(pairs, int(config.sentence_task != "none"))
        return objective.PretrainingLoss(
            config.objective, predictions, pairs, stage, device, config.precision, bag, taught
        )

    def _say_what_may_disappoint(self) -> None:
        """Before the first step: what no example trains, and what this machine can do or not."""
        config, shape, stage, note = self.config, self.shape, self._stage(), self.screen.note
        if self.corpora.dev_note:
            note(self.corpora.dev_note)
        trained = max(curriculum.longest_example(config), config.examples.positions)
        if trained < shape.max_positions and config.init_from is None:
            note(
                f"positions from {trained} on are not trained: the model will read inputs of more "
                f"tokens badly; --examples.positions {shape.max_positions} trains all"
            )
        on_cpu = self.process.device.type == "cpu"
        if on_cpu and config.precision == "auto" and has_fast_bfloat16():
            note(
                "this processor has instructions for bfloat16: --precision bfloat16 is faster "
                "here than float32, and rounds more"
            )
        predictions = int(stage.batch_size * stage.length * stage.mask_rate)
        flops = step_flops(shape, stage.batch_size, stage.length, predictions, stage.layers)
        step_s = flops / (self.gemm_rate or math.inf) / self.process.world_size
        if step_s > SLOW_STEP_S:
            note(
                f"a step takes at least {format_duration(step_s)} on this machine; --dry-run "
                "estimates the whole run, and --config tiny, mini and small are made for CPUs"
            )
