"""Pretraining: shards to a trained model folder, resumable at every checkpoint to the bit."""

from __future__ import annotations

import math
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from litebert.common.errors import DataError, LitebertError
from litebert.common.progress import format_duration
from litebert.common.rng import derived_seed
from litebert.common.signals import StopRequest, stop_request
from litebert.data.batches.example import Batch
from litebert.dist.replica import parallelize
from litebert.dist.runtime import Runtime, runtime
from litebert.optim.build import build_optimizers, set_learning_rate
from litebert.optim.schedule import factor
from litebert.train.display import Display, Status, display
from litebert.train.estimate import measured_gemm_rate, step_flops
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.curriculum import Stage, progress_share, stage_at
from litebert.train.pretraining.evaluate import DevSet, EvaluationStopped, Scores
from litebert.train.pretraining.evaluator import Evaluator
from litebert.train.pretraining.feed import Feed
from litebert.train.pretraining.finish import write_results
from litebert.train.pretraining.meter import Meter, StepFigures
from litebert.train.pretraining.objective import PretrainingLoss, counts_of, smallest_batch
from litebert.train.pretraining.records import Records
from litebert.train.pretraining.setup import (
    autocast_dtype,
    build_model,
    open_corpora,
    resolve_model,
)
from litebert.train.pretraining.state import Clock
from litebert.train.step import accumulate, update

SLOW_STEP_S = 30.0
"""Steps that take longer are announced: the machine is hardly the one the recipe is made for."""


@dataclass(frozen=True)
class PretrainResult:
    """How a run ended.

    Example:
        >>> result = pretrain(PretrainConfig(data=Path("shards"), out=Path("run"), steps=200))
        >>> result.scores.mlm_accuracy
        0.21
    """

    run: Path
    """the run folder"""
    model: Path | None
    """the model folder; None if the run was interrupted"""
    step: int
    """steps done"""
    tokens: int
    """tokens trained on"""
    elapsed_s: float
    """time in the training loop"""
    scores: Scores | None
    """the evaluation at the end; None without dev documents or if interrupted"""
    interrupted_by: int = 0
    """signal that stopped the run, 0 if it came to its end"""


def pretrain(config: PretrainConfig, *, quiet: bool = False) -> PretrainResult:
    """Train a model on token shards and write a run folder with the model in it.

    Args:
        config: everything that decides the run.
        quiet: show nothing while it runs.
    """
    with runtime(config.device, config.parallel) as processes, stop_request() as stop:
        screen = display(is_main=processes.is_main, quiet=quiet)
        try:
            return Pretraining(config, processes, stop, screen).run()
        except OSError as error:
            raise LitebertError(
                f"{error.filename or config.out} cannot be used: {error.strerror or error}; the "
                "checkpoints are intact: mend it and go on with --resume auto"
            ) from error
        finally:
            screen.close()


class Pretraining:
    """One pretraining run on this process; :func:`pretrain` makes and runs it.

    Example:
        >>> with runtime() as processes, stop_request() as stop:
        ...     result = Pretraining(config, processes, stop, display(is_main=True)).run()
    """

    def __init__(
        self, config: PretrainConfig, processes: Runtime, stop: StopRequest, screen: Display
    ) -> None:
        self.config, self.processes, self.stop, self.screen = config, processes, stop, screen
        corpora = open_corpora(config)
        self.corpora = corpora
        self.shape = resolve_model(config, corpora)
        # Before the model is wrapped: there, processes that disagree fail or wait for each other.
        self.records = Records(config, self.shape, corpora, processes, screen)
        self.model = build_model(config, self.shape, corpora).to(processes.device)
        if config.compile:
            self.model.compile(dynamic=True)  # lengths and numbers of masks differ
        self.replica = parallelize(self.model, config.parallel, processes)
        self.peak_lr = config.learning_rate(self.shape)
        named = list(self.model.named_parameters())
        self.parameters = [p for _, p in named if p.requires_grad]
        self.optimizers = build_optimizers(named, config.optimizer, self.peak_lr)
        self.state = self.records.restore(self.model, self.optimizers)
        self.feed = Feed(
            corpora.train,
            config.examples,
            config.seed,
            corpora.vocabulary,
            rank=processes.rank,
            world_size=processes.world_size,
            accumulation=config.accumulation,
            num_workers=config.workers,
            position=self.state.feed,
        )
        counts = corpora.unigram_counts()
        size = config.evaluation.batch_size
        self.dev = DevSet(corpora.dev, counts, config.examples, corpora.vocabulary, size)
        self.autocast = autocast_dtype(config, processes.device)
        self.evaluator = Evaluator(config, self.replica, self.dev, self.records, self.state)
        self.meter = Meter(config.objective, measured_gemm_rate(str(processes.device)))

    def run(self) -> PretrainResult:
        """Train to the end, or until a signal asks to stop."""
        state = self.state
        num_pairs = int(self.config.examples.task != "none")
        layers = self._stage().layers
        loss = PretrainingLoss(self.config.objective, 1, num_pairs, layers, self._device)
        self.replica.rehearse(lambda: loss(self.replica.train, smallest_batch())[0])
        if not self.dev.has_documents:
            self.screen.note("no dev documents: the run goes without evaluation")
        self._note_slow_steps()
        clock = Clock(state.elapsed_s)
        try:
            while self._share() < 1.0:
                if not self._step(clock):
                    return self._interrupted()
        except DataError:
            # Neither weights nor position have changed since the last step.
            if self.processes.world_size == 1:
                self._save()
                self.screen.note(f"step {state.step:,} is saved; go on with --resume auto")
            raise
        finally:
            self.feed.close()
        return self._finished()

    @property
    def _device(self) -> torch.device:
        return self.processes.device

    def _share(self) -> float:
        state = self.state
        return progress_share(self.config, state.step, state.tokens, state.elapsed_s)

    def _stage(self) -> Stage:
        return stage_at(self.config, self.shape, self._share())

    def _step(self, clock: Clock) -> bool:
        """One step and what belongs behind it; False if a signal asked to stop."""
        config, state, processes = self.config, self.state, self.processes
        started = time.perf_counter()
        stage, share = self._stage(), self._share()
        lr_factor = stage.lr_factor * factor(config.schedule, share, config.steps, state.step)
        batches = self.feed.take(stage)
        wait_s = time.perf_counter() - started
        predictions, pairs, tokens = (int(n) for n in processes.sum(counts_of(batches)))
        set_learning_rate(self.optimizers, lr_factor)
        loss_of = PretrainingLoss(
            config.objective, predictions, pairs, stage.layers, self._device, self.autocast
        )
        seeds = [
            derived_seed(config.seed, "dropout", state.step, processes.rank, number)
            for number in range(len(batches))
        ]
        statistics = accumulate(self.replica, batches, loss_of, seeds).tolist()
        own_clock_s = clock.elapsed_s() if processes.is_main else 0.0
        *sums, elapsed_s, stops = processes.sum(
            [*statistics, own_clock_s, float(self.stop.signum > 0)]
        )
        norm = update(
            self.parameters, self.optimizers, config.optimizer.clip_norm, loss=sums[0] + sums[2]
        )
        state.step += 1
        state.tokens += tokens
        state.elapsed_s = elapsed_s
        state.feed = self.feed.position
        figures = StepFigures(
            mlm_loss_sum=sums[0],
            mlm_correct=sums[1],
            sentence_loss_sum=sums[2],
            sentence_correct=sums[3],
            predictions=predictions,
            pairs=pairs,
            tokens=tokens,
            grad_norm=norm,
            seconds=time.perf_counter() - started,
            wait_s=wait_s,
            flops=self._flops(batches, stage),
        )
        if math.isfinite(norm):
            state.nonfinite_in_a_row = 0
            self.meter.add(figures)
        else:
            addresses = self.feed.addresses(stage)
            self.records.nonfinite(state, figures, addresses)
        self._show(stage)
        self._after_step(stage, lr_factor * self.peak_lr)
        return stops == 0

    def _after_step(self, stage: Stage, lr: float) -> None:
        """Log, evaluate and save when it is time."""
        config, state = self.config, self.state
        evaluation_due = _is_due(state.step, config.evaluation.every_steps)
        save_due = _is_due(state.step, config.checkpoint.every_steps)
        is_last = self._share() >= 1.0
        # A checkpoint ends a line of averages, so that a resumed run logs the same lines.
        if _is_due(state.step, config.log_every_steps) or evaluation_due or save_due or is_last:
            self._log(stage, lr)
        if evaluation_due and self.dev.has_documents and not is_last:
            save_due |= self.evaluator.during(stage.layers, self._share())
        if state.nonfinite_in_a_row >= config.max_nonfinite:
            in_a_row, state.nonfinite_in_a_row = state.nonfinite_in_a_row, 0
            self._save()
            raise LitebertError(
                f"stopped after {in_a_row} steps in a row whose loss or gradient "
                f"was not finite (step {state.step}); none of them changed the weights, which are "
                f"saved in {self.records.checkpoints}: lower the learning rate and go on with "
                f"--resume auto; if it stops again, delete step-{state.step} there first"
            )
        if save_due and not is_last:
            self._save()

    def _log(self, stage: Stage, lr: float) -> None:
        state = self.state
        if len(self.meter):
            values: dict[str, object] = {
                **self.meter.averages(),
                "lr": lr,
                "tokens": state.tokens,
                "elapsed_s": round(state.elapsed_s, 3),
                "progress": round(self._share(), 6),
                "layers": stage.layers,
                "length": stage.length,
                "batch_size": stage.batch_size,
                "mask_rate": stage.mask_rate,
                "epoch": round(self.feed.epochs()[0], 4),
                "bytes_per_step": self.replica.bytes_per_step(),
                "nonfinite": state.nonfinite_total,
            }
            self.records.log(state.step, values)
            self.meter.clear()

    def _save(self) -> None:
        self.records.save(self.state, self.model, self.optimizers)

    def _interrupted(self) -> PretrainResult:
        self._save()
        self.records.event(
            "interrupted",
            f"stopped at step {self.state.step:,} and saved; go on with --resume auto",
            self.state.step,
        )
        # The signal may have reached another process only.
        return self._result(None, self.stop.signum or signal.SIGTERM)

    def _finished(self) -> PretrainResult:
        # First of all: whatever happens to the evaluation, a resumed run repeats nothing else.
        self._save()
        if self.dev.has_documents:
            try:
                self.evaluator.at_the_end(self.shape.num_layers, self._share(), self.stop)
            except EvaluationStopped:
                return self._interrupted()
        folder = write_results(self.records, self.replica, self.corpora, self.dev)
        return self._result(folder, 0)

    def _result(self, folder: Path | None, signum: int) -> PretrainResult:
        state = self.state
        scores = self.evaluator.latest if folder is not None else None
        return PretrainResult(
            self.config.out, folder, state.step, state.tokens, state.elapsed_s, scores, signum
        )

    def _flops(self, batches: list[Batch], stage: Stage) -> float:
        shapes = [(*batch.input_ids.shape, len(batch.masked_labels)) for batch in batches]
        return sum(
            step_flops(self.shape, rows, length, predictions, stage.layers)
            for rows, length, predictions in shapes
        )

    def _note_slow_steps(self) -> None:
        """Tell who starts a large model on a small machine, before the first step has passed."""
        stage = self._stage()
        predictions = int(stage.batch_size * stage.length * stage.mask_rate)
        flops = step_flops(self.shape, stage.batch_size, stage.length, predictions, stage.layers)
        step_s = flops / self.meter.gemm_rate / self.processes.world_size
        if step_s > SLOW_STEP_S:
            self.screen.note(
                f"a step takes at least {format_duration(step_s)} on this machine; --dry-run "
                "estimates the whole run, and --config tiny, mini and small are made for CPUs"
            )

    def _show(self, stage: Stage) -> None:
        if not len(self.meter):
            return
        state, share = self.state, self._share()
        eta_s = state.elapsed_s * (1.0 - share) / share if share > 0 else 0.0
        values = self.meter.averages()
        figures = [f"loss {values['mlm_loss']:.2f}", f"words {values['mlm_accuracy']:.1%}"]
        if "sentence_accuracy" in values:
            figures.append(f"{self.config.examples.task} {values['sentence_accuracy']:.1%}")
        figures += [
            f"{values['tokens_per_s']:,.0f} tokens/s",
            f"{values['gemm_share']:.0%} of GEMM",
        ]
        settings = f"{stage.layers} layers, {stage.batch_size} x {stage.length}"
        dev = _describe(self.evaluator.latest)
        self.screen.show(Status(share, state.step, eta_s, tuple(figures), settings, dev))


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _describe(scores: Scores | None) -> str:
    if scores is None:
        return ""
    text = (
        f"dev loss {scores.mlm_loss:.2f} (at masks {scores.masked_loss:.2f}, "
        f"unigram {scores.unigram_loss:.2f}), words {scores.mlm_accuracy:.1%}"
    )
    if scores.sop_accuracy is not None:
        text += f", sop {scores.sop_accuracy:.1%}"
    if scores.nsp_accuracy is not None:
        text += f", nsp {scores.nsp_accuracy:.1%}"
    return text
