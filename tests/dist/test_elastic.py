"""A killed worker leads to a restart that ends with the weights of an undisturbed run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from litebert.common.runs import RunFolder
from small_run import assert_bitwise_equal, weights

WORKER = Path(__file__).with_name("killed_worker.py")


def run(processes: int, shards: Path, out: Path, how: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=1"]
    command += [f"--nproc-per-node={processes}", str(WORKER), str(shards), str(out), how]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr[-4000:]


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_killed_and_restarted_equals_undisturbed(
    tiny_shards_dir: Path, tmp_path: Path, processes: int
) -> None:
    run(processes, tiny_shards_dir, tmp_path / "straight", "undisturbed")
    run(processes, tiny_shards_dir, tmp_path / "killed", "disturbed")
    events = [e for e in RunFolder.open(tmp_path / "killed").metrics() if "event" in e]
    assert {"event": "resume", "step": 20} in events
    assert_bitwise_equal(weights(tmp_path / "straight"), weights(tmp_path / "killed"))


@pytest.mark.slow
def test_a_process_that_stands_still_for_a_while_is_waited_for(
    tiny_shards_dir: Path, tmp_path: Path
) -> None:
    """SIGSTOP for a minute, as a paused machine does; nobody restarts, nothing changes."""
    run(2, tiny_shards_dir, tmp_path / "straight", "undisturbed")
    run(2, tiny_shards_dir, tmp_path / "stopped", "stopped")
    events = [e["event"] for e in RunFolder.open(tmp_path / "stopped").metrics() if "event" in e]
    assert "resume" not in events
    assert_bitwise_equal(weights(tmp_path / "straight"), weights(tmp_path / "stopped"))
