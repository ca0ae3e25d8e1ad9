"""A run folder says what ran and loses no finished line."""

from __future__ import annotations

from pathlib import Path

import pytest

from litebert.common.errors import DataError
from litebert.common.runs import RunFolder


def test_manifest_and_metrics(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", {"steps": 3}, {"run": 7}, {"shards": "abc"})
    manifest = RunFolder.open(tmp_path / "run").manifest()
    assert manifest["config"] == {"steps": 3}
    assert manifest["seeds"] == {"run": 7}
    assert manifest["fingerprints"] == {"shards": "abc"}
    run.log(1, {"loss": 2.5})
    position = run.metrics_position()
    run.log(2, {"loss": 2.0})
    run.event("resume", step=1)
    assert list(run.metrics())[-1] == {"event": "resume", "step": 1}
    run.truncate_metrics(position)
    assert list(run.metrics()) == [{"step": 1, "loss": 2.5}]


def test_a_line_cut_by_a_crash_is_left_out(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, {}, {})
    run.log(1, {})
    with run.metrics_path.open("a") as stream:
        stream.write('{"step": 2, "lo')
    assert [record["step"] for record in run.metrics()] == [1]


def test_an_existing_run_is_not_overwritten(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, {}, {})
    with pytest.raises(DataError, match="already holds a run"):
        RunFolder.create(tmp_path, {}, {})
    with pytest.raises(DataError, match="not a run folder"):
        RunFolder.open(tmp_path / "other")
