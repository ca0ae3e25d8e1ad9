"""A run before it runs: parameters, memory, FLOPs per step and the time it will take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import torch

from litebert.data.batches.example import Batch
from litebert.dist.replica import SingleReplica
from litebert.dist.runtime import Process, this_process, uses_bfloat16
from litebert.model.config import ModelConfig
from litebert.model.counts import CPU_PIECE_ELEMENTS, GPU_PIECE_ELEMENTS
from litebert.optim.build import build_optimizers
from litebert.train.costs import Memory, measured_gemm_rate, step_flops
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.curriculum import Stage, stage_at
from litebert.train.pretraining.feed import Feed, rows_of
from litebert.train.pretraining.objective import PretrainingLoss, counts_of
from litebert.train.pretraining.setup import (
    Corpora,
    build_model,
    open_corpora,
    resolve_model,
)
from litebert.train.step import accumulate, update

Bound = Literal["steps", "tokens", "budget"]

_MEASURED_STEPS = 3
_MEASURED_TOKENS = 1024


@dataclass(frozen=True)
class StageEstimate:
    """What a step costs while one stage of the curricula lasts."""

    from_share: float
    """share of the run at which the stage begins"""
    layers: int
    length: int
    batch_size: int
    mask_rate: float
    micro_batches: int
    """per step, over all processes"""
    tokens_per_step: int
    flops_per_step: float
    step_s: float
    """expected duration of a step, from a measurement of part of one"""


@dataclass(frozen=True)
class DryRun:
    """Everything worth knowing before a run starts.

    Example:
        >>> estimate = dry_run(config)
        >>> estimate.parameters, estimate.expected_s
        (11813810, 86400.0)
    """

    model: ModelConfig
    parameters: int
    memory: Memory
    stages: tuple[StageEstimate, ...]
    learning_rate: float
    gemm_rate: float
    """operations per second of large matrix products here"""
    gemm_share: float
    """share of it that training reached in the measurement"""
    tokens_per_s: float
    """in the last stage"""
    bound: Bound
    """what ends the run"""
    expected_steps: int
    expected_tokens: int
    expected_s: float


def dry_run(config: PretrainConfig) -> DryRun:
    """Measure a few steps of every stage and extrapolate; nothing is written."""
    with this_process(config.device, config.parallel) as process:
        corpora = open_corpora(config)
        shape = resolve_model(config, corpora)
        bench = _Bench(config, shape, corpora, process)
        measured = [bench.measure(share) for share in _boundaries(config)]
    stages = tuple(estimate for estimate, _ in measured)
    last = stages[-1]
    parameters = sum(p.numel() for p in bench.replica.model.parameters())
    largest = max(stages, key=lambda stage: stage.tokens_per_step // stage.micro_batches)
    tokens = -(-largest.tokens_per_step // (largest.micro_batches * config.accumulation))
    memory = Memory.of(
        shape,
        parameters,
        tokens,
        round(tokens * largest.mask_rate),
        shards=process.world_size if config.parallel == "fsdp" else 1,
        activation_bytes=2 if uses_bfloat16(config.precision, process.device) else 4,
        recompute=config.activation_checkpointing,
        piece_elements=_piece_elements(config, process),
    )
    bound, steps, total_tokens, seconds = _extent(config, stages)
    gemm_rate = measured_gemm_rate(str(process.device))
    return DryRun(
        model=shape,
        parameters=parameters,
        memory=memory,
        stages=stages,
        learning_rate=config.learning_rate(shape),
        gemm_rate=gemm_rate,
        gemm_share=measured[-1][1] / gemm_rate,
        tokens_per_s=last.tokens_per_step / last.step_s,
        bound=bound,
        expected_steps=steps,
        expected_tokens=total_tokens,
        expected_s=seconds,
    )


class _Bench:
    """A model with its optimiser that can be timed in any stage."""

    def __init__(
        self, config: PretrainConfig, shape: ModelConfig, corpora: Corpora, process: Process
    ) -> None:
        self.config, self.shape, self.process, self.corpora = config, shape, process, corpora
        model = build_model(config, shape, corpora).to(process.device)
        # Each process measures alone: what it computes, not what it sends.
        self.replica = SingleReplica(model, process)
        self.optimizers = build_optimizers(model.named_parameters(), config.optimizer, 0.0)

    def measure(self, share: float) -> tuple[StageEstimate, float]:
        """The costs of a step at a share of the run, and operations per second."""
        stage = stage_at(self.config, self.shape, share)
        batch = self._batch(stage)
        part = rows_of(batch, 0, max(1, batch.input_ids.size // _MEASURED_TOKENS))
        part_flops, update_s, compute_s = self._time(part, stage)
        rate = part_flops / compute_s
        flops = stage.num_micro * self._flops(batch, stage)
        estimate = StageEstimate(
            from_share=share,
            layers=stage.layers,
            length=stage.length,
            batch_size=stage.batch_size,
            mask_rate=stage.mask_rate,
            micro_batches=stage.num_micro,
            tokens_per_step=stage.num_micro * batch.num_tokens,
            flops_per_step=flops,
            step_s=flops / rate / self.process.world_size + update_s,
        )
        return estimate, rate

    def _time(self, part: Batch, stage: Stage) -> tuple[float, float, float]:
        """Operations of a part of a micro-batch, seconds to update, seconds to compute it."""
        predictions, pairs, _ = counts_of([part])
        loss_of = PretrainingLoss(
            self.config.objective,
            max(1, predictions),
            pairs,
            stage.layers,
            self.process.device,
            self.config.precision,
        )
        parameters = [p for p in self.replica.model.parameters() if p.requires_grad]
        compute_s, update_s = [], []
        for _ in range(1 + _MEASURED_STEPS):
            started = time.perf_counter()
            accumulate(self.replica, [part], loss_of, [0])
            self._wait()
            between = time.perf_counter()
            update(parameters, self.optimizers, self.config.optimizer.clip_norm, loss=0.0)
            self._wait()
            compute_s.append(between - started)
            update_s.append(time.perf_counter() - between)
        return self._flops(part, stage), min(update_s[1:]), min(compute_s[1:])

    def _batch(self, stage: Stage) -> Batch:
        feed = Feed(
            self.corpora.train, self.config.examples, self.config.seed, self.corpora.vocabulary
        )
        return max(feed.take(stage), key=lambda batch: batch.num_tokens)

    def _flops(self, batch: Batch, stage: Stage) -> float:
        rows, length = batch.input_ids.shape
        return step_flops(self.shape, rows, length, len(batch.masked_labels), stage.layers)

    def _wait(self) -> None:
        if self.process.device.type == "cuda":
            torch.cuda.synchronize()


def _piece_elements(config: PretrainConfig, process: Process) -> int | None:
    """Logits that the loss holds at a time; a compiled model computes all of them at once."""
    if config.compile:
        return None
    return CPU_PIECE_ELEMENTS if process.device.type == "cpu" else GPU_PIECE_ELEMENTS


def _boundaries(config: PretrainConfig) -> list[float]:
    """Shares of the run at which some setting changes."""
    table = config.curriculum
    tables = (table.layers, table.length, table.batch_size, table.mask_rate)
    return sorted({0.0} | {share for rows in tables for share, _ in rows})


def _extent(
    config: PretrainConfig, stages: tuple[StageEstimate, ...]
) -> tuple[Bound, int, int, float]:
    """What ends the run, and the steps, tokens and seconds until then.

    A stage holds for a share of whatever bounds the run: of its steps, its tokens or its time.
    """
    ends = [stage.from_share for stage in stages[1:]] + [1.0]
    widths = [end - stage.from_share for stage, end in zip(stages, ends, strict=True)]
    candidates: list[tuple[float, Bound, float, float]] = []
    for bound, amount in (
        ("steps", config.steps),
        ("tokens", config.tokens),
        ("budget", config.budget_s),
    ):
        if amount is None:
            continue
        steps = tokens = seconds = 0.0
        for stage, width in zip(stages, widths, strict=True):
            per_step = {"steps": 1.0, "tokens": stage.tokens_per_step, "budget": stage.step_s}
            num_steps = width * amount / per_step[bound]
            steps += num_steps
            tokens += num_steps * stage.tokens_per_step
            seconds += num_steps * stage.step_s
        candidates.append((seconds, bound, steps, tokens))  # type: ignore[arg-type]
    seconds, found, steps, tokens = min(candidates)
    return found, round(steps), round(tokens), seconds
