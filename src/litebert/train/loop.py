"""The training loop of both engines: step, log, evaluate, save, stop at a signal or at NaNs."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from litebert.common.config import to_dict
from litebert.common.delimited import BROKEN
from litebert.common.errors import ConfigError, DataError, LitebertError
from litebert.common.signals import StopRequest, stop_request
from litebert.dist.replica import Replica, whole
from litebert.dist.runtime import Parallel, Process, this_process
from litebert.model.cpu import keep_freed_memory
from litebert.optim.build import set_learning_rate
from litebert.predict.backend import Threads
from litebert.train.display import StatusLine
from litebert.train.run import Run, RunKind, TrainState, owned_run
from litebert.train.threads import ThreadWatch, thread_limit

if TYPE_CHECKING:
    from litebert.train.run import RunConfig

T = TypeVar("T")


@dataclass(frozen=True)
class Step(Generic[T]):
    """What this process computes in one step."""

    batches: Sequence[T]  # this process's micro-batches, at least one
    loss_of: Callable[[nn.Module, T], tuple[Tensor, Tensor]]
    """the loss of one, divided by the step's global counts, and sums to be reported"""
    seeds: Sequence[int]  # of the dropout of each micro-batch
    lr_factor: float
    tokens: int  # over all processes, without padding
    rests: Sequence[Tensor] = ()  # parameters that the step leaves alone, decay and optimizer state included


@dataclass(frozen=True)
class Outcome:
    """What a step gave, the same on every process."""

    sums: Sequence[float]  # what ``loss_of`` reports, over all micro-batches of all processes
    grad_norm: float  # before clipping; not finite if nothing was updated
    seconds: float


class Engine(Protocol[T]):
    """What pretraining and fine-tuning differ in."""

    def share(self) -> float:
        """The share of the run that is done."""

    def next_step(self) -> Step[T]:
        """Batches, loss and learning rate of the step that comes now."""

    def count(self, outcome: Outcome) -> None:
        """Note a step that changed the weights."""

    def describe_skipped(self, outcome: Outcome) -> Mapping[str, object]:
        """Loss and addresses of the examples of a step that was not finite, as JSON."""

    def line(self) -> Mapping[str, object] | None:
        """The line of metrics since the last one; None if no step changed the weights."""

    def status(self, share: float, eta_s: float) -> StatusLine | None:
        """What people see after a step."""

    def evaluate(self, *, is_last: bool) -> bool:
        """Evaluate and record it; whether these weights are among the best."""

    def remedy(self) -> str:
        """What to do after too many steps that were not finite."""


@dataclass(frozen=True)
class Cadence:
    """When the loop does what; 0 means never."""

    log_steps: int
    evaluate_steps: int
    save_steps: int = 0
    save_s: float = math.inf
    max_nonfinite: int = 10  # stop after this many steps in a row whose loss or gradient was not finite


@contextmanager
def training_process(kind: RunKind, config: RunConfig, parallel: Parallel) -> Iterator[tuple[Process, StopRequest]]:
    """This process of a run: it owns the folder and hears signals; a failing file is one line.

    All processes must have the same settings.
    """
    out = config.out
    keep_freed_memory()
    if not str(out).isascii() and BROKEN.search(str(out)):
        raise ConfigError(f"{out} is not a UTF-8 name, which boards need: choose another --out")
    # Paths may differ between processes: what is found there is compared instead.
    paths = ("data", "extra_data", "dev_data", "teacher")
    settings = {k: v for k, v in to_dict(config).items() if k not in paths}
    with this_process(config.device, parallel) as process, stop_request() as stop, thread_limit(config.threads):
        try:
            with owned_run(process, kind, out, config.inputs):
                process.check_same("configuration", json.dumps(settings, sort_keys=True))
                yield process, stop
        except OSError as error:
            remedy = "fix it, or choose another --out"
            if (out / "checkpoints").is_dir():
                remedy = "the checkpoints are intact: fix it and go on with --resume auto"
            reason = f"{error.filename or out} cannot be used: {error.strerror or error}"
            raise LitebertError(f"{reason}; {remedy}") from error


class Loop(Generic[T]):
    """Trains an engine's model from where its restored run stands."""

    def __init__(
        self,
        engine: Engine[T],
        run: Run[TrainState],
        replica: Replica,
        optimizers: Sequence[Optimizer],
        clip_norm: float,
        cadence: Cadence,
        stop: StopRequest,
        threads: Threads = "auto",
    ) -> None:
        self.engine, self.run, self.replica, self.optimizers = engine, run, replica, optimizers
        self.clip_norm, self.cadence, self.stop = clip_norm, cadence, stop
        self.process, self.state = run.process, run.state
        self._parameters = [p for p in replica.model.parameters() if p.requires_grad]
        self._saved_s = self.state.elapsed_s
        # Several processes share a machine by torchrun's rule, and wait for the slowest of them.
        alone = self.process.world_size == 1 and self.process.device.type == "cpu"
        limit = torch.get_num_threads() if threads == "auto" and alone else 1
        self._threads = ThreadWatch(limit, torch.set_num_threads, self._tell_threads)

    def train(self) -> int:
        """Train until all is done and save; the signal that stopped it before, or 0."""
        began = time.monotonic() - self.state.elapsed_s
        try:
            while self.engine.share() < 1.0:
                if self._step(began):
                    return self.interrupt()
        except DataError:
            # Neither weights nor position have changed since the last step.
            if self.process.world_size == 1:
                self.run.save()
                self.run.screen.note(f"step {self.state.step:,} is saved; go on with --resume auto")
            raise
        # First of all: whatever comes now, a resumed run repeats nothing of this.
        self.run.save()
        return 0

    def interrupt(self) -> int:
        """Save and say so; the signal."""
        # The signal may have reached another process only.
        signum = self.stop.signum or signal.SIGTERM
        self.run.save()
        message = f"stopped at step {self.state.step:,} and saved; go on with --resume auto"
        self.run.event("interrupted", message, {"signal": int(signum)})
        return signum

    def _step(self, began: float) -> bool:
        """One step and what follows it; whether some process was asked to stop.

        ``began`` is when training would have begun on this clock, had it never been interrupted.
        """
        state, started = self.state, time.perf_counter()
        step = self.engine.next_step()
        set_learning_rate(self.optimizers, step.lr_factor)
        sums = accumulate(self.replica, step.batches, step.loss_of, step.seeds).tolist()
        clock_s = time.monotonic() - began if self.process.is_main else 0.0
        *sums, state.elapsed_s, num_stops = self.process.sum([*sums, clock_s, self.stop.signum > 0])
        for parameter in step.rests:
            parameter.grad = None
        norm = update(self._parameters, self.optimizers, self.clip_norm, loss=sum(sums))
        state.step += 1
        state.tokens += step.tokens
        outcome = Outcome(sums, norm, time.perf_counter() - started)
        self._threads.note(step.tokens, outcome.seconds)
        if math.isfinite(norm):
            state.nonfinite_in_a_row = 0
            self.engine.count(outcome)
        else:
            self._skip(outcome)
        share = self.engine.share()
        eta_s = state.elapsed_s * (1.0 - share) / share if share > 0 else 0.0
        if (status := self.engine.status(share, eta_s)) is not None:
            self.run.screen.show(status)
        self._after_step(is_last=share >= 1.0)
        return num_stops > 0

    def _tell_threads(self, number: int) -> None:
        message = f"step {self.state.step:,}: going on with {number} of {self._threads.limit} threads"
        self.run.event("threads", message, {"threads": number})

    def _skip(self, outcome: Outcome) -> None:
        """Count a step without update, and write which examples it saw."""
        self.state.nonfinite_total += 1
        self.state.nonfinite_in_a_row += 1
        found = {"grad_norm": str(outcome.grad_norm), **self.engine.describe_skipped(outcome)}
        self.run.event("nonfinite", fields=found)
        self.run.screen.note(f"step {self.state.step:,}: loss or gradient not finite, no update")

    def _after_step(self, *, is_last: bool) -> None:
        """Log, evaluate and save when it is time."""
        cadence, state = self.cadence, self.state
        evaluation_due = _is_due(state.step, cadence.evaluate_steps)
        save_due = _is_due(state.step, cadence.save_steps)
        # A checkpoint ends a line of averages, so that a resumed run logs the same lines.
        line_due = _is_due(state.step, cadence.log_steps) or evaluation_due or save_due or is_last
        if line_due and (line := self.engine.line()) is not None:
            self.run.log(state.step, line)
        if evaluation_due or is_last:
            save_due |= self.engine.evaluate(is_last=is_last)
        if state.nonfinite_in_a_row >= cadence.max_nonfinite:
            in_a_row, state.nonfinite_in_a_row = state.nonfinite_in_a_row, 0
            self.run.save()
            raise LitebertError(
                f"stopped after {in_a_row} steps in a row whose loss or gradient was not finite (step {state.step}); "
                f"none of them changed the weights, which are saved in {self.run.checkpoints}: {self.engine.remedy()}"
            )
        save_due |= state.elapsed_s - self._saved_s > cadence.save_s
        if save_due and not is_last:
            self.run.save()
            self._saved_s = state.elapsed_s


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def accumulate(
    replica: Replica,
    micro_batches: Sequence[T],
    loss_of: Callable[[nn.Module, T], tuple[Tensor, Tensor]],
    seeds: Sequence[int],
) -> Tensor:
    """Run forward and backward of all micro-batches; then gradients are summed over processes.

    The arguments are those of :class:`Step`; returns the sum of the statistics over this process's micro-batches. With
    a seed for each one's dropout a resumed run needs no stored generator.
    """
    total: Tensor | None = None
    for number, (micro_batch, seed) in enumerate(zip(micro_batches, seeds, strict=True)):
        torch.manual_seed(seed)
        with replica.micro_batch(is_last=number + 1 == len(micro_batches)):
            loss, statistics = loss_of(replica.module_for_training, micro_batch)
            torch.autograd.backward(loss)
        statistics = statistics.detach().double()
        total = statistics if total is None else total + statistics
    assert total is not None, "a step has at least one micro-batch"
    return total


def update(parameters: Iterable[Tensor], optimizers: Sequence[Optimizer], clip_norm: float, *, loss: float) -> float:
    """Clip the gradients to a global norm and update, unless loss or gradients are not finite.

    Gradients and loss are the same on every process (they were summed), so all decide alike. Returns the gradients'
    global norm before clipping; not finite if nothing was updated.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = float(whole(torch.nn.utils.get_total_norm(gradients)))
    if not math.isfinite(loss):
        norm = math.nan
    if math.isfinite(norm):
        if 0.0 < clip_norm < norm:
            # As in TensorFlow's clip_by_global_norm: no eps in the divisor.
            torch._foreach_mul_(gradients, clip_norm / norm)
        for optimizer in optimizers:
            optimizer.step()
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    return norm
