"""A fault at any write, rename, sync or removal: the end, once gone on, is the same to the byte."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import faulty_disk
import hostile_files
from faulty_disk import JOBS
from litebert.common.errors import ConfigError
from litebert.common.runs import RunFolder
from litebert.report.write import write_report
from litebert.train.pretraining.config import Checkpoints
from litebert.train.pretraining.engine import pretrain
from small_run import assert_bitwise_equal, small_config, weights


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path, tiny_shards_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("world") / "world"
    folder.mkdir()
    hostile_files.make_world(folder, tiny_tokenizer_dir, tiny_shards_dir)
    return folder


def try_all(world: Path, tmp_path: Path, name: str, every: int) -> None:
    own = shutil.copytree(world, tmp_path / "world")
    answer = subprocess.run(
        [sys.executable, faulty_disk.__file__, str(own), name, str(every)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    found = json.loads(answer.stdout.splitlines()[-1])
    assert found["points"] > 20, "the disk saw what the command did"
    assert not found["problems"], "\n".join(found["problems"])
    record = Path("build/reliability")
    record.mkdir(parents=True, exist_ok=True)
    (record / f"faults-{name.replace(' ', '-')}.json").write_text(json.dumps(found))


def test_some_faults_of_a_build(world: Path, tmp_path: Path) -> None:
    try_all(world, tmp_path, "build", 47)


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_fault_at_every_point(world: Path, tmp_path: Path, name: str) -> None:
    try_all(world, tmp_path, name, 1)


def test_a_clock_that_goes_backwards_changes_nothing(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour back at every look, as after a wrong setting is corrected: no file depends on it."""
    straight, back = (small_config(tiny_shards_dir, tmp_path / name, steps=3) for name in ("straight", "back"))
    pretrain(straight, quiet=True)
    hours = itertools.count()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600 * next(hours))
    pretrain(replace(back, checkpoint=Checkpoints(every_steps=1)), quiet=True)
    pretrain(replace(back, checkpoint=Checkpoints(every_steps=1), steps=3, resume="auto"))
    assert next(hours) > 0, "somebody looked"
    assert_bitwise_equal(weights(straight.out), weights(back.out))
    losses = [line["mlm_loss"] for line in RunFolder.open(back.out).metrics() if "mlm_loss" in line]
    assert len(losses) == 3
    write_report(back.out)


def test_a_run_in_a_folder_whose_name_is_not_utf8_is_refused(tiny_shards_dir: Path, tmp_path: Path) -> None:
    """TensorBoard and others cannot write there."""
    out = tmp_path / os.fsdecode(b"caf\xe9")
    with pytest.raises(ConfigError, match="not a UTF-8 name"):
        pretrain(small_config(tiny_shards_dir, out, steps=1), quiet=True)
    assert not out.exists()
