"""40 steps = 20 + SIGKILL + 20, to the bit; SIGTERM saves; a damaged checkpoint is passed over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from litebert.common.runs import RunFolder
from litebert.train.checkpoint import WEIGHTS_FILE, steps_in
from litebert.train.pretraining.config import Checkpoints, PretrainConfig
from litebert.train.pretraining.engine import pretrain
from small_run import assert_bitwise_equal, small_config, weights

SIGNAL_AT_STEP = """
import os, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from small_run import small_config
from litebert.train.pretraining.config import Checkpoints
from litebert.train.pretraining.engine import pretrain
from litebert.train.run import Run

log = Run.log

def log_and_signal(self, step, values):
    log(self, step, values)
    if step == {step}:
        os.kill(os.getpid(), {signum})

Run.log = log_and_signal
config = small_config(
    Path({shards!r}), Path({out!r}), steps=40, checkpoint=Checkpoints(every_steps=10)
)
result = pretrain(config, quiet=True)
sys.exit(128 + result.interrupted_by)
"""


@pytest.fixture(scope="module")
def straight(tiny_shards_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> PretrainConfig:
    """The undisturbed run of 40 steps."""
    out = tmp_path_factory.mktemp("straight") / "run"
    config = small_config(tiny_shards_dir, out, steps=40, checkpoint=Checkpoints(every_steps=10))
    pretrain(config, quiet=True)
    return config


def run_until(straight: PretrainConfig, out: Path, step: int, signum: int) -> int:
    """Run the same training in another process that gets a signal; its exit status."""
    code = SIGNAL_AT_STEP.format(
        tests=str(Path(__file__).resolve().parents[1]),
        step=step,
        signum=signum,
        shards=str(straight.data),
        out=str(out),
    )
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    return subprocess.run([sys.executable, "-c", code], env=environment).returncode


def resumed(straight: PretrainConfig, out: Path) -> PretrainConfig:
    return replace(straight, out=out, resume="auto")


def events(out: Path) -> list[Mapping[str, object]]:
    """What happened, apart from remarks about the plateau."""
    found = [e for e in RunFolder.open(out).metrics() if "event" in e]
    return [e for e in found if "plateau" not in str(e["event"])]


def test_killed_and_resumed_equals_undisturbed(straight: PretrainConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_until(straight, out, step=23, signum=signal.SIGKILL) == -signal.SIGKILL
    assert steps_in(out / "checkpoints")[-1] == 20
    pretrain(resumed(straight, out), quiet=True)
    assert_bitwise_equal(weights(straight.out), weights(out))
    steps = [line["step"] for line in RunFolder.open(out).metrics() if "mlm_loss" in line]
    assert steps == list(range(1, 41))
    assert events(out) == [{"event": "resume", "step": 20}]


def test_one_flipped_byte_leads_to_the_checkpoint_before(straight: PretrainConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_until(straight, out, step=25, signum=signal.SIGKILL)
    damaged = out / "checkpoints" / "step-20" / WEIGHTS_FILE
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    pretrain(resumed(straight, out), quiet=True)
    assert_bitwise_equal(weights(straight.out), weights(out))
    found = events(out)
    assert [e["event"] for e in found] == ["damaged_checkpoint", "resume"]
    assert "step-20" in str(found[0]["message"])
    assert found[1]["step"] == 10


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_saves_and_leaves(straight: PretrainConfig, tmp_path: Path, signum: signal.Signals) -> None:
    out = tmp_path / "run"
    assert run_until(straight, out, step=13, signum=signum) == 128 + signum
    # The signal came after step 13 was over, so step 14 was the last.
    assert steps_in(out / "checkpoints")[-1] == 14
    pretrain(resumed(straight, out), quiet=True)
    assert_bitwise_equal(weights(straight.out), weights(out))
