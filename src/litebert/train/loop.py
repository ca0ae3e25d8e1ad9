"""The training loop of both engines: step, log, evaluate, save, stop at a signal or at NaNs."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from litebert.common.errors import DataError, LitebertError
from litebert.common.signals import StopRequest, stop_request
from litebert.dist.replica import Replica
from litebert.dist.runtime import DeviceName, Parallel, Process, this_process
from litebert.optim.build import set_learning_rate
from litebert.train.display import StatusLine
from litebert.train.run import Run, TrainState
from litebert.train.step import accumulate, update

T = TypeVar("T")


@dataclass(frozen=True)
class Step(Generic[T]):
    """What this process computes in one step."""

    batches: Sequence[T]
    """this process's micro-batches, at least one"""
    loss_of: Callable[[nn.Module, T], tuple[Tensor, Tensor]]
    """the loss of one, divided by the step's global counts, and sums to be reported"""
    seeds: Sequence[int]
    """for each micro-batch, the seed of its dropout"""
    lr_factor: float
    """share of the peak learning rate"""
    tokens: int
    """tokens of the step over all processes, without padding"""


@dataclass(frozen=True)
class Outcome:
    """What a step gave, the same on every process."""

    sums: Sequence[float]
    """what ``loss_of`` reports, over all micro-batches of all processes"""
    grad_norm: float
    """before clipping; not finite if nothing was updated"""
    seconds: float
    """duration of the step"""


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
    """longest time between two checkpoints"""
    max_nonfinite: int = 10
    """stop after so many steps in a row whose loss or gradient was not finite"""


class Clock:
    """Time in the training loop, continued from earlier runs.

    >>> Clock(before_s=120.0).elapsed_s() >= 120.0
    True
    """

    def __init__(self, before_s: float = 0.0) -> None:
        self._before_s, self._started = before_s, time.monotonic()

    def elapsed_s(self) -> float:
        """Seconds so far."""
        return self._before_s + time.monotonic() - self._started


@contextmanager
def training_process(
    out: Path, device: DeviceName, parallel: Parallel
) -> Iterator[tuple[Process, StopRequest]]:
    """This process of a run, which listens to signals; a file that fails becomes one line."""
    with this_process(device, parallel) as process, stop_request() as stop:
        try:
            yield process, stop
        except OSError as error:
            raise LitebertError(
                f"{error.filename or out} cannot be used: {error.strerror or error}; the "
                "checkpoints are intact: fix it and go on with --resume auto"
            ) from error


class Loop(Generic[T]):
    """Trains an engine's model from where its run stands.

    Args:
        engine: what to train on.
        run: restored; its state is moved on.
        replica: the model.
        optimizers: of its trainable parameters.
        clip_norm: largest norm of the gradient.
        cadence: when to log, evaluate and save.
        stop: the signals that ask to stop.
    """

    def __init__(
        self,
        engine: Engine[T],
        run: Run[TrainState],
        replica: Replica,
        optimizers: Sequence[Optimizer],
        clip_norm: float,
        cadence: Cadence,
        stop: StopRequest,
    ) -> None:
        self.engine, self.run, self.replica, self.optimizers = engine, run, replica, optimizers
        self.clip_norm, self.cadence, self.stop = clip_norm, cadence, stop
        self.process, self.state = run.process, run.state
        self._parameters = [p for p in replica.model.parameters() if p.requires_grad]
        self._saved_s = self.state.elapsed_s

    def train(self) -> int:
        """Train until all is done and save; the signal that stopped it before, or 0."""
        clock = Clock(self.state.elapsed_s)
        try:
            while self.engine.share() < 1.0:
                if self._step(clock):
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
        self.run.event(
            "interrupted",
            f"stopped at step {self.state.step:,} and saved; go on with --resume auto",
            {"signal": int(signum)},
        )
        return signum

    def _step(self, clock: Clock) -> bool:
        """One step and what follows it; whether some process was asked to stop."""
        state, started = self.state, time.perf_counter()
        step = self.engine.next_step()
        set_learning_rate(self.optimizers, step.lr_factor)
        statistics = accumulate(self.replica, step.batches, step.loss_of, step.seeds).tolist()
        own_clock_s = clock.elapsed_s() if self.process.is_main else 0.0
        *sums, elapsed_s, num_stops = self.process.sum(
            [*statistics, own_clock_s, float(self.stop.signum > 0)]
        )
        norm = update(self._parameters, self.optimizers, self.clip_norm, loss=sum(sums))
        state.step += 1
        state.tokens += step.tokens
        state.elapsed_s = elapsed_s
        outcome = Outcome(sums, norm, time.perf_counter() - started)
        if math.isfinite(norm):
            state.nonfinite_in_a_row = 0
            self.engine.count(outcome)
        else:
            self._skip(outcome)
        self._show()
        self._after_step()
        return num_stops > 0

    def _skip(self, outcome: Outcome) -> None:
        """Count a step without update, and write which examples it saw."""
        self.state.nonfinite_total += 1
        self.state.nonfinite_in_a_row += 1
        found = {"grad_norm": str(outcome.grad_norm), **self.engine.describe_skipped(outcome)}
        self.run.event("nonfinite", fields=found)
        step = self.state.step
        self.run.screen.note(f"step {step:,}: loss or gradient not finite, no update")

    def _show(self) -> None:
        share = self.engine.share()
        eta_s = self.state.elapsed_s * (1.0 - share) / share if share > 0 else 0.0
        status = self.engine.status(share, eta_s)
        if status is not None:
            self.run.screen.show(status)

    def _after_step(self) -> None:
        """Log, evaluate and save when it is time."""
        cadence, state = self.cadence, self.state
        evaluation_due = _is_due(state.step, cadence.evaluate_steps)
        save_due = _is_due(state.step, cadence.save_steps)
        is_last = self.engine.share() >= 1.0
        # A checkpoint ends a line of averages, so that a resumed run logs the same lines.
        if _is_due(state.step, cadence.log_steps) or evaluation_due or save_due or is_last:
            line = self.engine.line()
            if line is not None:
                self.run.log(state.step, line)
        if evaluation_due or is_last:
            save_due |= self.engine.evaluate(is_last=is_last)
        if state.nonfinite_in_a_row >= cadence.max_nonfinite:
            in_a_row, state.nonfinite_in_a_row = state.nonfinite_in_a_row, 0
            self.run.save()
            raise LitebertError(
                f"stopped after {in_a_row} steps in a row whose loss or gradient "
                f"was not finite (step {state.step}); none of them changed the weights, which are "
                f"saved in {self.run.checkpoints}: {self.engine.remedy()}"
            )
        save_due |= state.elapsed_s - self._saved_s > cadence.save_s
        if save_due and not is_last:
            self.run.save()
            self._saved_s = state.elapsed_s


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
