"""The runs below a folder: found, told apart, sorted, and compared by their settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from litebert.cli import main
from litebert.common.errors import DataError
from litebert.common.runs import RunFolder
from litebert.report.write import score_table, summarize_runs


def pretraining(path: Path, losses: list[float], *, lr: float, done: bool = True) -> RunFolder:
    config = {"out": str(path), "seed": 0, "optimizer": {"name": "lamb", "lr": lr}}
    run = RunFolder.create(path, config, {"run": 0})
    for step, loss in enumerate(losses, 1):
        run.log(10 * step, {"mlm_loss": loss + 1})
        run.log(10 * step, {"dev_mlm_loss": loss})
    if done:
        (path / "model").mkdir()
        (path / "model" / "config.json").write_text("{}")
    return run


def finetuning(path: Path, score: float | None, **settings: object) -> RunFolder:
    run = RunFolder.create(path, {"task": "rte", "lr": None, "seed": 0, **settings}, {"run": 0})
    run.event("recipe", 0, lr=0.5, steps_per_epoch=3)
    run.log(5, {"dev_accuracy": 0.4, "eval_s": 1.0})
    if score is not None:
        result = {"task": "rte", "metric": "accuracy", "scores": {"accuracy": score}, "steps": 9}
        (path / "result.json").write_text(json.dumps(result))
    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pretraining(tmp_path / "a", [5.0, 4.0, 4.5], lr=0.1)
    pretraining(tmp_path / "deep/b", [3.0], lr=0.2)
    pretraining(tmp_path / "c", [9.0], lr=0.2, done=False).event("interrupted", 10, signal=15)
    finetuning(tmp_path / "low", 0.5, seed=1)
    finetuning(tmp_path / "high", 0.75, lr=0.25)
    finetuning(tmp_path / "going", None)
    finetuning(tmp_path / "high/seed-0", 0.7)  # a part of the run
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards/manifest.json").write_text('{"tokenizer_sha256": "x"}')
    return tmp_path


def test_runs_are_sorted_by_kind_and_best_figure(folder: Path) -> None:
    found = [(run.run, run.kind, run.state, run.steps, run.best) for run in summarize_runs(folder)]
    assert found == [
        ("high", "finetune", "finished", 9, 0.75),
        ("low", "finetune", "finished", 9, 0.5),
        ("going", "finetune", "unfinished", 5, 0.4),
        ("deep/b", "pretrain", "finished", 10, 3.0),
        ("a", "pretrain", "finished", 30, 4.0),
        ("c", "pretrain", "interrupted", 10, 9.0),
    ]


def test_only_settings_that_differ_are_told_and_a_recipe_fills_them_in(folder: Path) -> None:
    settings = {run.run: run.settings for run in summarize_runs(folder)}
    assert settings["a"] == {"optimizer.lr": 0.1}
    assert settings["high"] == {"lr": 0.25, "seed": 0}
    assert settings["low"] == {"lr": 0.5, "seed": 1}


def test_a_damaged_run_is_told(folder: Path) -> None:
    (folder / "a/manifest.json").write_text("{")
    (damaged,) = [run for run in summarize_runs(folder) if run.kind == "damaged"]
    assert damaged.run == "a"
    assert "manifest.json" in damaged.state


def test_the_command_prints_a_table_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["runs", str(folder), "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in rows][:2] == ["high", "low"]
    main(["runs", str(folder)])
    said = capsys.readouterr().out
    for text in ("deep/b", "mlm_loss 3", "accuracy 0.75", "optimizer.lr=0.1", "interrupted"):
        assert text in said, text
    main(["runs", str(folder / "shards")])
    assert "holds no runs" in capsys.readouterr().out
    with pytest.raises(DataError, match="not a folder"):
        summarize_runs(folder / "nowhere")


def test_the_score_table_names_run_and_settings(folder: Path) -> None:
    lines = score_table([folder / "low", folder / "high"]).splitlines()
    assert lines[2].startswith(f"| {folder / 'low'} | rte | accuracy | 0.5 |")
    assert lines[2].endswith("| lr=0.5, seed=1 |")
