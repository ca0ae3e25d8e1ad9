"""A pretraining run small enough for tests: a second on one core."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from litebert.common.config import from_dict
from litebert.common.files import write_json_lines
from litebert.data.batches.example import ExampleConfig
from litebert.model.config import ModelSection
from litebert.train.pretraining.config import Curriculum, Objective, PretrainConfig
from litebert.train.pretraining.engine import Pretraining, pretrain
from litebert.train.pretraining.objective import PretrainingLoss

BAG = Objective(bag_weight=0.5, bag_frequency=1e-3)
"""With the bag-of-words loss."""
LEVERS: dict[str, Any] = {
    "objective": replace(BAG, bag_exponent=0.3, pairs_every_steps=2, pairs_length=16),
    "curriculum": Curriculum(
        task=((0.0, "nsp"), (0.5, "sop")),
        sentence_factor=((0.0, 2.0), (0.5, 0.5)),
        trainable=((0.0, "words"), (0.25, "all")),
    ),
    "average": 0.8,
}
"""Everything that is off by default at once: changing tasks, short pairs, rest, averages."""

SINGLE: dict[str, Any] = {
    "examples": ExampleConfig(length=32, micro_batch_size=2, task="none"),
    "objective": replace(BAG, pairs_every_steps=2, pairs_length=16, pairs_task="sop"),
}
"""Words in single texts, sentence order in short pairs of every second step."""

GROWTH: dict[str, Any] = {
    "curriculum": Curriculum(layers=((0.0, 1), (0.5, 2))),
    "model": ModelSection(
        preset="albert-tiny", hidden_size=64, embedding_size=32, intermediate_size=64, sharing="none"
    ),
}
"""Layers of their own, one at first."""


def small_config(shards: Path, out: Path, **changes: object) -> PretrainConfig:
    """Two layers of 64, batches of 8 x 32, four micro-batches a step."""
    base = {
        "data": str(shards),
        "out": str(out),
        "steps": 12,
        "batch_size": 8,
        "workers": 0,
        "device": "cpu",
        # A busy machine must not change the number, and with it the last bits.
        "threads": torch.get_num_threads(),
        "log_every_steps": 1,
        "model": {"preset": "albert-tiny", "hidden_size": 64, "embedding_size": 32, "intermediate_size": 64},
        "examples": {"length": 32, "micro_batch_size": 2},
        "optimizer": {"name": "adamw", "lr": 2e-3},
        "schedule": {"name": "trapezoid", "warmup_share": 0.1},
        "evaluation": {"every_steps": 0, "examples": 32, "final_examples": 32},
        "checkpoint": {"every_steps": 0},
    }
    return replace(from_dict(PretrainConfig, base, "test"), **changes)  # type: ignore[arg-type]


def taught(folder: Path) -> dict[str, Any]:
    """A teacher of vectors for pretraining, its file in a folder."""
    path = folder / "vectors.jsonl"
    if not path.is_file():
        generator = np.random.default_rng(0)
        rows = [
            {"text": f"text {number} " * (1 + number % 5), "embedding": vector.tolist()}
            for number, vector in enumerate(generator.normal(size=(20, 80)))
        ]
        write_json_lines(path, rows)
    return {"teacher": path, "objective": Objective(teacher_batch_size=5, teacher_every_steps=2)}


def pretrain_in_parts(config: PretrainConfig, patch: pytest.MonkeyPatch, *lasts: int) -> None:
    """Run a training of a number of steps, stopped after each of these and resumed."""
    assert config.steps is not None
    for last in lasts:
        with patch.context() as context:
            context.setattr(Pretraining, "share", share_until(last, config.steps))
            pretrain(replace(config, resume="auto"), quiet=True)


def share_until(last: int, steps: int) -> Callable[[Pretraining], float]:
    """The schedule of all steps, at its end after some of them."""
    return lambda run: 1.0 if run.state.step >= last else run.state.step / steps


def poison(patch: pytest.MonkeyPatch, is_bad: Callable[[int], bool]) -> None:
    """Make the loss of some micro-batches, counted from 1, not a number."""
    calls = 0
    original = PretrainingLoss.__call__

    def poisoned(self, model, batch):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        loss, statistics = original(self, model, batch)
        return (loss * math.nan if is_bad(calls) else loss), statistics

    patch.setattr(PretrainingLoss, "__call__", poisoned)


def weights(run: Path) -> dict[str, torch.Tensor]:
    """The final model's tensors."""
    return load_file(run / "model" / "model.safetensors")


def assert_bitwise_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert not different, different
