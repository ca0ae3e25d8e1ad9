"""A fine-tuning run small enough for tests: a second on one core."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import FineTuning

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "custom_task"
POISONED_STEP = 3
STOPPED_STEP = 6


def small_finetuning(model: Path, out: Path, kind: str, **changes: object) -> FinetuneConfig:
    """Eight steps of a task in ``examples/``, without dropout, evaluated every second step."""
    config = FinetuneConfig(
        str(EXAMPLES / f"{kind}.toml"), model=str(model), out=out, steps=8, lr=1e-3, batch_size=7,
        eval_every_steps=2, classifier_dropout=0.0, log_every_steps=1, device="cpu",
        # A busy machine must not change the number, and with it the last bits.
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return replace(config, **changes)  # type: ignore[arg-type]


def poison(patch: pytest.MonkeyPatch) -> None:
    """Make the loss of one step not a number."""
    next_step = FineTuning.next_step

    def poisoned(self):  # type: ignore[no-untyped-def]
        step = next_step(self)

        def loss_of(module, batch):  # type: ignore[no-untyped-def]
            loss, statistics = step.loss_of(module, batch)
            return loss * float("nan"), statistics

        is_bad = self.state.step + 1 == POISONED_STEP
        return replace(step, loss_of=loss_of) if is_bad else step

    patch.setattr(FineTuning, "next_step", poisoned)


def signal_at(patch: pytest.MonkeyPatch, step: int, signum: signal.Signals) -> None:
    """Send this process a signal when it begins a step."""
    next_step = FineTuning.next_step

    def signalled(self):  # type: ignore[no-untyped-def]
        if self.state.step + 1 == step:
            os.kill(os.getpid(), signum)
        return next_step(self)

    patch.setattr(FineTuning, "next_step", signalled)
