"""Runs of experiments: cached by what decides them, starts first, full-size files that load."""

from __future__ import annotations

from pathlib import Path

import pytest

from litebert.cli import run as run_command
from litebert.common.config import from_dict, read_toml
from litebert.common.errors import ConfigError
from litebert.experiments.config import experiment_names, load_experiment
from litebert.experiments.plan import Assignment, distinct, paper_config, plan_runs
from litebert.train.pretraining.config import PretrainConfig


def test_a_run_is_known_by_what_decides_it(tiny_shards_dir: Path, tmp_path: Path) -> None:
    here = Assignment(tmp_path / "a", data=(tiny_shards_dir,), seeds=2)
    elsewhere = Assignment(tmp_path / "b", data=(tiny_shards_dir,), seeds=3)
    longer = Assignment(tmp_path / "a", data=(tiny_shards_dir,), seeds=2, tokens=2_000_000)
    table4 = load_experiment("table4")
    runs, others = plan_runs(table4, here), plan_runs(table4, elsewhere)
    assert all(others[key].key == run.key for key, run in runs.items())
    assert len({run.key for run in runs.values()}) == len(runs) == 2 * 6
    assert not {r.key for r in plan_runs(table4, longer).values()} & {r.key for r in runs.values()}


def test_a_condition_of_two_tables_is_trained_once(tiny_shards_dir: Path, tmp_path: Path) -> None:
    request = Assignment(tmp_path, data=(tiny_shards_dir,), seeds=1)
    plans = [plan_runs(load_experiment(name), request) for name in ("table8", "figure2b", "table2")]
    keys = [{run.key for run in plan.values()} for plan in plans]
    assert keys[0] == keys[1]
    assert keys[0] & keys[2]  # ALBERT 128 is the model without dropout
    assert len(distinct(plans)) == len(keys[0] | keys[2])


def test_starts_come_before_those_that_need_them(tiny_shards_dir: Path, tmp_path: Path) -> None:
    request = Assignment(tmp_path, data=(tiny_shards_dir,))
    for name in experiment_names():
        seen: set[str] = set()
        for run in distinct([plan_runs(load_experiment(name), request)]):
            assert run.start is None or run.start.key in seen
            assert (run.config.init_from is None) == (run.start is None)
            seen.add(run.key)


def test_full_size_files_are_what_was_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["reproduce", "all", "--scale", "paper", "--dry-run", "--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert sum(" parameters, " in line for line in lines) > 40
    file = next(line.split(": ")[-1] for line in lines if "BERT xlarge" in line)
    written = from_dict(PretrainConfig, {"data": "shards", "out": "runs", **read_toml(file)})
    planned, shape = paper_config(load_experiment("table2"), "BERT xlarge")
    assert written.model == planned.model
    assert (written.optimizer, written.schedule) == (planned.optimizer, planned.schedule)
    assert (written.parallel, shape.hidden_dropout) == ("fsdp", 0.1)


def test_refusals(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path)]
    with pytest.raises(ConfigError, match="Did you mean"):
        run_command(["reproduce", "tabel4", *out])
    with pytest.raises(ConfigError, match="needs --data"):
        run_command(["reproduce", "table4", *out])
    with pytest.raises(ConfigError, match="needs a cluster"):
        run_command(["reproduce", "table4", "--scale", "paper", *out])
    with pytest.raises(ConfigError, match="20k"):
        run_command(["reproduce", "table4", "--tokens", "many", *out])
