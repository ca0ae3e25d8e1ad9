"""A run before it runs: parameters, memory, FLOPs per step and the time it will take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import torch

from litebert.data.batches.example import Batch
from litebert.dist.replica import Replica
from litebert.dist.runtime import Process, this_process, uses_bfloat16
from litebert.model.config import ModelConfig
from litebert.model.counts import CPU_SLICE_ELEMENTS, GPU_SLICE_ELEMENTS
from litebert.optim.build import build_optimizers
from litebert.train.estimate import Memory, measured_gemm_rate
from litebert.train.loop import accumulate, update
from litebert.train.pretraining import setup
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.curriculum import Stage, pairs_stage, stage_at
from litebert.train.pretraining.feed import Feed, rows_of, without_masks
from litebert.train.pretraining.objective import PretrainingLoss, batch_flops, counts_of
from litebert.train.threads import thread_limit

Bound = Literal["steps", "tokens", "budget"]

_MEASURED_STEPS = 3
_MEASURED_TOKENS = 1024
_DRAWN_BATCHES = 32


@dataclass(frozen=True)
class StageEstimate:
    """What a step costs while one stage of the curricula lasts."""

    from_share: float  # of the run
    layers: int
    length: int
    batch_size: int
    mask_rate: float
    micro_batches: int  # per step, over all processes
    tokens_per_step: int
    flops_per_step: float
    step_s: float  # expected duration of a step, from a measurement of part of one


@dataclass(frozen=True)
class DryRun:
    """Everything worth knowing before a run starts."""

    model: ModelConfig
    parameters: int
    memory: Memory
    stages: tuple[StageEstimate, ...]
    learning_rate: float
    gemm_rate: float | None  # operations per second of large matrix products here; None if the machine was busy
    gemm_share: float | None  # share of it that training reached in the measurement
    tokens_per_s: float  # in the last stage
    bound: Bound  # what ends the run
    expected_steps: int
    expected_tokens: int
    expected_s: float


def dry_run(config: PretrainConfig) -> DryRun:
    """Measure a few steps of every stage and extrapolate; nothing is written."""
    with this_process(config.device, config.parallel) as process, thread_limit(config.threads):
        bench = _Bench(config, process)
        table = config.curriculum
        tables = (table.layers, table.length, table.batch_size, table.mask_rate)
        changes = sorted({0.0} | {share for rows in tables for share, _ in rows})
        measured = [bench.measure(share) for share in changes]
    stages, last = tuple(stage for stage, _ in measured), measured[-1][0]
    parameters = sum(p.numel() for p in bench.replica.model.parameters())
    largest = max(stages, key=lambda stage: stage.batch_size * stage.length // stage.micro_batches)
    padded = largest.batch_size * largest.length
    tokens_at_once = -(-padded // (largest.micro_batches * config.accumulation))
    narrow = uses_bfloat16(config.precision, process.device)
    elements = CPU_SLICE_ELEMENTS if process.device.type == "cpu" else GPU_SLICE_ELEMENTS
    memory = Memory.of(
        bench.shape,
        parameters,
        tokens_at_once,
        round(tokens_at_once * largest.mask_rate),
        shards=process.world_size if config.parallel == "fsdp" else 1,
        activation_bytes=2 if narrow else 4,
        recompute=config.activation_checkpointing,
        slice_elements=None if config.compile else elements,  # compiled: all logits at once
    )
    seconds, bound, steps, tokens = _extent(config, stages)
    gemm_rate = measured_gemm_rate(str(process.device), narrow)
    return DryRun(
        model=bench.shape,
        parameters=parameters,
        memory=memory,
        stages=stages,
        learning_rate=config.learning_rate(bench.shape),
        gemm_rate=gemm_rate,
        gemm_share=None if gemm_rate is None else measured[-1][1] / gemm_rate,
        tokens_per_s=last.tokens_per_step / last.step_s,
        bound=bound,
        expected_steps=round(steps),
        expected_tokens=round(tokens),
        expected_s=seconds,
    )


class _Bench:
    """A model with its optimizer that can be timed in any stage."""

    def __init__(self, config: PretrainConfig, process: Process) -> None:
        self.config, self.process, self.corpora = config, process, setup.open_corpora(config)
        self.shape = setup.resolve_model(config, self.corpora)
        model = setup.build_pretraining_model(config, self.shape, self.corpora).to(process.device)
        self.taught = setup.taught_texts(config, self.shape, self.corpora.tokenizer, model)
        # Each process measures alone: what it computes, not what it sends.
        self.replica = Replica(model, process)
        self.optimizers = build_optimizers(model.named_parameters(), config.optimizer, 0.0)

    def measure(self, share: float) -> tuple[StageEstimate, float]:
        """The costs of a step at a share of the run, and operations per second."""
        objective, stage = self.config.objective, stage_at(self.config, self.shape, share)
        # One batch may be a short left-over of its buffer: costs are means over many, each with the share of it that a
        # step has.
        parts = self._draw(stage)
        batch = max((batch for batch, _ in parts), key=lambda batch: batch.num_tokens)
        measured = rows_of(batch, 0, max(1, batch.input_ids.size // _MEASURED_TOKENS))
        compute_s, update_s = self._time(measured, stage)
        rate = batch_flops(self.shape, measured, stage.layers) / compute_s
        if every := objective.pairs_every_steps:
            pairs = self._draw(pairs_stage(self.config, stage))
            parts += [(without_masks(batch), part / every) for batch, part in pairs]
        if self.taught is not None:
            part = 1 / (objective.teacher_every_steps * _DRAWN_BATCHES)
            parts += [(self.taught.batch(number), part) for number in range(_DRAWN_BATCHES)]
        flops = sum(part * batch_flops(self.shape, b, stage.layers) for b, part in parts)
        estimate = StageEstimate(
            from_share=share,
            layers=stage.layers,
            length=stage.length,
            batch_size=stage.batch_size,
            mask_rate=stage.mask_rate,
            micro_batches=stage.num_micro,
            tokens_per_step=round(sum(part * batch.num_tokens for batch, part in parts)),
            flops_per_step=flops,
            step_s=flops / rate / self.process.world_size + update_s,
        )
        return estimate, rate

    def _draw(self, stage: Stage) -> list[tuple[Batch, float]]:
        """Batches of some steps, and which part of each is in one step on average."""
        config, corpora = self.config, self.corpora
        feed = Feed(corpora.train, config.examples, config.seed, corpora.vocabulary)
        steps = range(-(-_DRAWN_BATCHES // stage.num_micro))
        return [(batch, 1 / len(steps)) for _ in steps for batch in feed.take(stage)]

    def _time(self, batch: Batch, stage: Stage) -> tuple[float, float]:
        """Seconds to compute a batch and to update, the best of a few after a first one."""
        device, config = self.process.device, self.config
        predictions, pairs, _ = counts_of([batch])
        loss_of = PretrainingLoss(config.objective, predictions, pairs, stage, device, config.precision)
        parameters = [p for p in self.replica.model.parameters() if p.requires_grad]
        compute_s, update_s = [], []
        for _ in range(1 + _MEASURED_STEPS):
            started = time.perf_counter()
            accumulate(self.replica, [batch], loss_of, [0])
            _wait(device)
            between = time.perf_counter()
            update(parameters, self.optimizers, config.optimizer.clip_norm, loss=0.0)
            _wait(device)
            compute_s.append(between - started)
            update_s.append(time.perf_counter() - between)
        return min(compute_s[1:]), min(update_s[1:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _extent(config: PretrainConfig, stages: tuple[StageEstimate, ...]) -> tuple[float, Bound, float, float]:
    """Seconds until the run ends, what ends it, and its steps and tokens.

    A stage holds for a share of whatever bounds the run: of its steps, its tokens or its time.
    """
    ends = [*(stage.from_share for stage in stages[1:]), 1.0]
    limits: tuple[tuple[Bound, float | None, list[float]], ...] = (
        ("steps", config.steps, [1.0 for _ in stages]),
        ("tokens", config.tokens, [stage.tokens_per_step for stage in stages]),
        ("budget", config.budget_s, [stage.step_s for stage in stages]),
    )
    found: list[tuple[float, Bound, float, float]] = []
    for bound, amount, per_step in limits:
        if amount is not None:
            rows = zip(stages, ends, per_step, strict=True)
            steps = [(stage, (end - stage.from_share) * amount / each) for stage, end, each in rows]
            seconds = sum(n * stage.step_s for stage, n in steps)
            tokens = sum(n * stage.tokens_per_step for stage, n in steps)
            found.append((seconds, bound, sum(n for _, n in steps), tokens))
    return min(found)
