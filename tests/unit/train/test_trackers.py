"""Boards get every number under a grouped name, from the step on that a run resumes at."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from litebert.common.errors import ConfigError
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.trackers import open_trackers


class Calls:
    """A module that remembers what was called."""

    def __init__(self) -> None:
        self.made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.info = SimpleNamespace(run_id="r1")

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Calls:
            self.made.append((name, args, kwargs))
            return self

        return call


def test_an_unknown_board_is_refused_when_the_settings_are_made() -> None:
    with pytest.raises(ConfigError, match="not 'wandbb'. Did you mean 'wandb'"):
        PretrainConfig(data=Path("d"), out=Path("o"), steps=1, track="tensorboard, wandbb")


def test_a_board_that_is_asked_for_and_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wandb", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert open_trackers("tensorboard", tmp_path, 1, {}) == []
    with pytest.raises(ConfigError, match="pip install wandb"):
        open_trackers("wandb", tmp_path, 1, {})


def test_wandb_gets_numbers_and_the_same_run_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for _ in range(2):
        calls = Calls()
        monkeypatch.setitem(sys.modules, "wandb", calls)
        (tracker,) = open_trackers("wandb", tmp_path, 1, {"lr": 2})
        tracker.log(3, {"loss/loss": 0.5})
        tracker.close()
        assert [name for name, _, _ in calls.made] == ["init", "log", "finish"]
        assert calls.made[0][2]["config"] == {"lr": 2}
        assert calls.made[1][1:] == (({"loss/loss": 0.5},), {"step": 3})
        names.append(calls.made[0][2]["id"])
    assert names[0] == names[1]


def test_mlflow_gets_numbers_and_the_same_run_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    for _ in range(2):
        calls = Calls()
        monkeypatch.setitem(sys.modules, "mlflow", calls)
        (tracker,) = open_trackers("mlflow", tmp_path, 1, {"lr": 2})
        tracker.log(3, {"loss/loss": 0.5})
        tracker.close()
        assert ("log_metrics", ({"loss/loss": 0.5},), {"step": 3}) in calls.made
        started.append(next(kwargs for name, _, kwargs in calls.made if name == "start_run"))
    assert started == [{"run_name": tmp_path.name}, {"run_id": "r1"}]


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (tracker,) = open_trackers("tensorboard", tmp_path, 1, {})
    tracker.log(2, {"loss/loss": 0.5, "dev/accuracy": 1.0})
    tracker.close()
    read = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert sorted(read.Tags()["scalars"]) == ["dev/accuracy", "loss/loss"]
    assert [(event.step, event.value) for event in read.Scalars("loss/loss")] == [(2, 0.5)]
