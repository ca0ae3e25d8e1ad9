"""Under torchrun process 0 owns the run folder, and every process learns of a refusal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_all_processes_stop_if_the_folder_is_refused(tiny_shards_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "litebert", "pretrain", "--config", "tiny", "--data", str(tiny_shards_dir)]
    command += ["--out", str(out), "--steps", "2", "--resume", "auto", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert answer.returncode != 0
    lines = [line for line in answer.stderr.splitlines() if line.startswith("litebert: error: ")]
    assert sorted("thesis.txt" in line for line in lines) == [False, True]
    assert any("process 0 has stopped" in line for line in lines)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
