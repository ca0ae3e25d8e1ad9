"""Sweeps: the runs of a grid, what fails, what is skipped, the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from litebert.common.errors import ConfigError, DataError
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.results import FinetuneResult
from litebert.train.finetuning.sweep import SweepConfig, SweepRow, combinations, run_config, sweep, sweep_table


def test_combinations_are_the_product_of_the_axes() -> None:
    assert combinations([]) == [{}]
    found = combinations(["lr=1e-4,3e-4", "batch-size=16,32", "start=random"])
    assert len(found) == 4
    assert found[1] == {"lr": 1e-4, "batch_size": 32, "start": "random"}


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("lr", "SETTING=VALUE"),
        ("lr=", "SETTING=VALUE"),
        ("lrr=1", "Did you mean 'lr'"),
        ("seeds=1,2", "unknown setting 'seeds'"),
    ],
)
def test_bad_axes_are_refused(axis: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        combinations([axis])


def test_values_of_a_wrong_type_are_refused(tmp_path: Path) -> None:
    config = SweepConfig(("rte",), model="m", out=tmp_path)
    with pytest.raises(ConfigError, match="lr = 'high'"):
        run_config(config, "rte", {"lr": "high"})


def test_a_sweep_runs_all_notes_failures_and_writes_the_table(tmp_path: Path) -> None:
    made: list[FinetuneConfig] = []

    def run(config: FinetuneConfig) -> FinetuneResult:
        made.append(config)
        if config.task == "mrpc" and config.lr == 1e-4:
            raise DataError("no such file")
        scores = {"accuracy": 0.5 + 1000 * (config.lr or 0)}
        return FinetuneResult(
            config.out, config.task, "accuracy", scores=scores, baseline={"accuracy": 0.5},
            spread={"accuracy": 0.02}, seconds=3.0, tokens=1000,
        )  # fmt: skip

    config = SweepConfig(("rte", "mrpc"), model="m", out=tmp_path, grid=("lr=1e-4,3e-4",), seeds=2)
    rows, signum = sweep(config, run)
    assert signum == 0
    assert [(row.task, row.median) for row in rows] == [
        ("rte", pytest.approx(0.6)), ("rte", pytest.approx(0.8)),
        ("mrpc", None), ("mrpc", pytest.approx(0.8)),
    ]  # fmt: skip
    assert len({config.out for config in made}) == 4
    assert all(config.resume == "auto" and config.seeds == 2 for config in made)
    text = (tmp_path / "table.md").read_text()
    assert "| rte | 0.0001 | accuracy | 0.6 | 0.02 | 0.5 | 3 | 1,000 |" in text
    assert "failed: no such file" in text


def test_a_sweep_whose_runs_all_fail_leaves_its_table(tmp_path: Path) -> None:
    def run(config: FinetuneConfig) -> FinetuneResult:
        raise DataError("no such file")

    sweep(SweepConfig(("rte",), model="m", out=tmp_path), run)
    assert "failed: no such file" in (tmp_path / "table.md").read_text()


def test_settings_that_all_runs_share_stand_below_the_table() -> None:
    rows = [
        SweepRow("rte", {"start": start, "epochs": 2}, "accuracy", 0.5, 0.1, 0.5, 1.0, 10)
        for start in ("weights", "random")
    ]
    text = sweep_table(rows)
    assert "| rte | random | accuracy | 0.5 |" in text
    assert text.endswith("\n\nAll runs: epochs 2.\n")


def test_an_interrupted_sweep_stops(tmp_path: Path) -> None:
    def run(config: FinetuneConfig) -> FinetuneResult:
        return FinetuneResult(config.out, config.task, "accuracy", interrupted_by=15)

    rows, signum = sweep(SweepConfig(("rte", "mrpc"), model="m", out=tmp_path), run)
    assert (rows, signum) == ([], 15)


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    config = SweepConfig(("a/task.toml", "b/task.toml"), model="m", out=tmp_path)
    with pytest.raises(ConfigError, match="need names of their own"):
        sweep(config, lambda config: FinetuneResult(tmp_path, "task", "accuracy"))


def test_a_task_starts_from_an_earlier_one(tmp_path: Path) -> None:
    """As RTE, STS-B and MRPC of the paper start from MNLI."""
    starts = ("rte=mnli", "mrpc=models/other")
    config = SweepConfig(("mnli", "rte", "mrpc"), out=tmp_path, model="base", start_from=starts)
    models = [run_config(config, task, {"lr": 1e-4}).model for task in config.tasks]
    first = run_config(config, "mnli", {"lr": 1e-4}).out / "model"
    assert models == ["base", str(first), "models/other"]
    for wrong in ("cola=mnli", "mnli=rte", "rte"):
        bad = SweepConfig(("mnli", "rte"), out=tmp_path, start_from=(wrong,))
        with pytest.raises(ConfigError, match="--start-from"):
            run_config(bad, "mnli", {})
