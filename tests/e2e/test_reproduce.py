"""Table 4 from text to page; killed and resumed it is the same table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from litebert.cli import run as run_command
from litebert.experiments.work import work

pytestmark = pytest.mark.slow


def arguments(shards: Path, out: Path) -> list[str]:
    given = ["reproduce", "table4", "--scale", "cpu", "--tokens", "20k", "--seeds", "2"]
    return [*given, "--data", str(shards), "--out", str(out)]


def test_table4_killed_and_resumed_is_the_same_table(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "litebert", *arguments(tiny_shards_dir, tmp_path / "killed")]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    runs = tmp_path / "killed" / "runs"
    while not list(runs.glob("*/pretrain/metrics.jsonl")):  # in the middle of the first runs
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "table4").exists()
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)

    # The same in this process, one run after the other and never interrupted.
    in_process = "litebert.experiments.execute.run_job"
    monkeypatch.setattr(in_process, lambda job, _: work(Path(job.command[-1])))
    run_command([*arguments(tiny_shards_dir, tmp_path / "whole"), "--workers", "1"])

    for name in ("table.md", "report.html"):
        assert (tmp_path / "whole" / "table4" / name).is_file()
    tables = [(tmp_path / name / "table4" / "table.md").read_text() for name in ("killed", "whole")]
    assert tables[0] == tables[1]
    assert "| two groups |" in tables[0]
