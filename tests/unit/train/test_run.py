"""A run on disk: what is written, found again, refused and removed; and the rule for NaNs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import pytest
import torch
from torch import nn

from litebert.common.errors import CheckpointError, LitebertError
from litebert.common.runs import RunFolder
from litebert.dist.runtime import DeviceName, Process
from litebert.optim.build import build_optimizers
from litebert.optim.config import OptimizerConfig
from litebert.predict.backend import Threads
from litebert.train import checkpoint
from litebert.train.display import display
from litebert.train.finetuning.engine import FineTuning, finetune
from litebert.train.finetuning.order import Batch
from litebert.train.finetuning.setup import FinetuneState
from litebert.train.loop import Step
from litebert.train.run import Run
from small_finetuning import small_finetuning
from tiny_models import random_model_folder

ALONE = Process(0, 1, torch.device("cpu"))


@dataclass(frozen=True)
class Config:
    out: Path
    seed: int = 0
    track: str = "tensorboard"
    resume: Literal["no", "auto"] = "no"
    lr: float = 0.1
    device: DeviceName = "cpu"
    threads: Threads = 1
    inputs: tuple[tuple[str, Path], ...] = ()


def open_run(config: Config, data: str = "ab", size: int = 2) -> tuple[Run[FinetuneState], nn.Module]:
    screen = display(is_main=False)
    run = Run(cast(Any, config), FinetuneState, {"size": size}, {"train": data}, 1, ALONE, screen)
    model = nn.Linear(2, 2)
    optimizers = build_optimizers(model.named_parameters(), OptimizerConfig(name="adamw"), 0.1)
    run.restore(model, optimizers)
    return run, model


def saved_run(out: Path) -> nn.Module:
    """A run of three steps with a line after its checkpoint."""
    run, model = open_run(Config(out))
    run.state.step, run.state.kept = 3, ((0.5, 3.0),)
    run.log(3, {"loss": 1.0, "dev_accuracy": 0.5})
    run.save()
    run.log(4, {"loss": 0.9})
    run.finish(keep_checkpoints=True)
    return model


def test_a_run_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    model = saved_run(tmp_path)
    resumed, other = open_run(Config(tmp_path, resume="auto", lr=0.2))
    assert resumed.state == FinetuneState(step=3, kept=((0.5, 3.0),))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert torch.equal(resumed.weights(3)["bias"], model.bias)  # type: ignore[arg-type]
    first, event = RunFolder.open(tmp_path).metrics()
    assert first["loss"] == 1.0
    assert event == {"event": "resume", "step": 3, "changed": {"lr": [0.1, 0.2]}}
    assert list((tmp_path / "tensorboard").iterdir())
    resumed.finish(keep_checkpoints=False)
    assert not (tmp_path / "checkpoints").exists()


def test_a_checkpoint_of_the_first_versions_is_read(tmp_path: Path) -> None:
    """Fine-tuning wrote neither an identity nor the number of processes nor a total of NaNs."""
    saved_run(tmp_path)
    path = tmp_path / "checkpoints" / "step-3"
    found = checkpoint.read(path)
    run = {k: v for k, v in found.state["run"].items() if k != "nonfinite_total"}
    tensors = {name: found.tensors(name) for name in (checkpoint.WEIGHTS_FILE, checkpoint.OPTIMIZER_FILE)}
    content = {"run": run, "metrics_position": found.state["metrics_position"]}
    checkpoint.save(tmp_path / "checkpoints", 3, tensors, content)
    assert "identity" not in json.loads((path / checkpoint.STATE_FILE).read_text())
    with pytest.raises(CheckpointError, match=r"data\.train = ab, not cd"):
        open_run(Config(tmp_path, resume="auto"), data="cd")
    resumed, _ = open_run(Config(tmp_path, resume="auto"))
    assert resumed.state.kept_steps() == [3]


def test_other_data_and_another_model_are_refused(tmp_path: Path) -> None:
    saved_run(tmp_path)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(CheckpointError, match=r"data\.train = ab, not cd"):
        open_run(Config(tmp_path, resume="auto"), data="cd")
    with pytest.raises(CheckpointError, match="size = 2, not 3"):
        open_run(Config(tmp_path, resume="auto"), size=3)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_fine_tuning_stops_at_many_steps_that_are_not_finite(
    tiny_tokenizer_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_model_folder(tmp_path / "model", "pretraining", tiny_tokenizer_dir)
    config = small_finetuning(model, tmp_path / "run", "classification", steps=30, max_length=32)
    next_step = FineTuning.next_step

    def poisoned(self: FineTuning) -> Step[Batch]:
        step = next_step(self)

        def loss_of(module: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
            loss, sums = step.loss_of(module, batch)
            return loss * math.nan, sums * math.nan

        return step if self.state.step < 2 else replace(step, loss_of=loss_of)

    monkeypatch.setattr(FineTuning, "next_step", poisoned)
    with pytest.raises(LitebertError, match=r"10 steps in a row.*step 12.*lower --lr \(now 0.001"):
        finetune(config)
    found = checkpoint.latest_good(config.out / "checkpoints", pytest.fail)
    assert found is not None
    assert found.step == 12
    assert all(torch.isfinite(t).all() for t in found.tensors(checkpoint.WEIGHTS_FILE).values())
    lines = list(RunFolder.open(config.out).metrics())
    assert [line["step"] for line in lines if "loss" in line and "event" not in line] == [1, 2]
    events = [line for line in lines if line.get("event") == "nonfinite"]
    assert [event["step"] for event in events] == list(range(3, 13))
    assert all(1 <= len(cast(list[str], event["examples"])) <= 7 for event in events)
