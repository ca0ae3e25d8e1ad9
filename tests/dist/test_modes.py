"""One loss list for every way to run: one process, two with DDP, two with FSDP, accumulation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from litebert.common.runs import RunFolder
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.prepare import prepare
from litebert.optim.config import OptimizerConfig
from litebert.train.pretraining.config import Checkpoints, Evaluation
from litebert.train.pretraining.engine import pretrain
from small_run import BAG, GROWTH, LEVERS, SINGLE, poison, share_until, small_config, taught, weights

TOLERANCE = 1e-5
POISONED_STEP = 3
WORKER = Path(__file__).with_name("modes_worker.py")


def torchrun(*arguments: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, f"--nproc-per-node={processes}", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def runs(
    tiny_shards_dir: Path,
    tiny_tokenizer_dir: Path,
    python_text: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Every mode's run folder."""
    out = tmp_path_factory.mktemp("modes")
    evaluation = Evaluation(every_steps=6, examples=40, final_examples=40)
    base = small_config(
        tiny_shards_dir, out, evaluation=evaluation, checkpoint=Checkpoints(every_steps=6)
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    lamb = OptimizerConfig(name="lamb", lr=5e-3)
    pretrain(replace(base, out=out / "single"), quiet=True)
    pretrain(replace(base, out=out / "single-lamb", optimizer=lamb), quiet=True)
    pretrain(replace(base, out=out / "single-rows", batch_size=2), quiet=True)
    pretrain(replace(base, out=out / "single-bag", objective=BAG), quiet=True)
    pretrain(replace(base, out=out / "single-levers", **LEVERS), quiet=True)
    pretrain(replace(base, out=out / "single-texts", **SINGLE), quiet=True)
    pretrain(replace(base, out=out / "single-growth", **GROWTH), quiet=True)
    pretrain(replace(base, out=out / "single-taught", **taught(out)), quiet=True)
    for parts in (2, 4):
        pretrain(replace(base, out=out / f"accumulation-{parts}", accumulation=parts), quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        poison(patch, lambda call: (call + 3) // 4 == POISONED_STEP)
        pretrain(replace(base, out=out / "single-poisoned"), quiet=True)
    # The schedule of twelve steps, stopped after six.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("litebert.train.pretraining.engine.Pretraining.share", share_until(6, 12))
        pretrain(replace(base, out=out / "begun-alone"), quiet=True)
    torch.set_num_threads(threads)
    prepare(
        PrepareConfig(
            input=(python_text,),
            tokenizer=tiny_tokenizer_dir,
            out=out / "other-shards",
            layout="paragraphs",
            workers=1,
            dev_fraction=0.3,
        )
    )
    answer = torchrun(str(WORKER), str(tiny_shards_dir), str(out))
    assert answer.returncode == 0, answer.stderr[-4000:]
    return out


def values(run: Path, key: str) -> list[float]:
    lines = RunFolder.open(run).metrics()
    return [float(str(line[key])) for line in lines if key in line and "event" not in line]


@pytest.mark.parametrize(
    ("mode", "reference"),
    [
        ("ddp", "single"),
        ("fsdp", "single"),
        ("ddp-lamb", "single-lamb"),
        ("fsdp-lamb", "single-lamb"),
        ("ddp-bag", "single-bag"),
        ("fsdp-bag", "single-bag"),
        ("ddp-levers", "single-levers"),
        ("fsdp-levers", "single-levers"),
        ("ddp-texts", "single-texts"),
        ("fsdp-texts", "single-texts"),
        ("ddp-growth", "single-growth"),
        ("fsdp-growth", "single-growth"),
        ("ddp-taught", "single-taught"),
        ("fsdp-taught", "single-taught"),
        ("ddp-rows", "single-rows"),
        ("ddp-stopped", "single"),
        ("begun-alone", "single"),
        ("accumulation-2", "single"),
        ("accumulation-4", "single"),
        ("ddp-accumulation", "single"),
        ("fsdp-accumulation", "single"),
        ("ddp-poisoned", "single-poisoned"),
        ("fsdp-poisoned", "single-poisoned"),
    ],
)
def test_losses_and_weights_agree(runs: Path, mode: str, reference: str) -> None:
    keys = ("mlm_loss", "sentence_loss", "bag_loss", "teacher_cosine", "grad_norm", "dev_mlm_loss")
    for key in keys:
        found, expected = values(runs / mode, key), values(runs / reference, key)
        assert found == pytest.approx(expected, abs=TOLERANCE, rel=TOLERANCE), key
    assert bool(values(runs / mode, "bag_loss")) == mode.endswith(("bag", "levers", "texts"))
    assert bool(values(runs / mode, "teacher_cosine")) == mode.endswith("taught")
    assert values(runs / mode, "tokens") == values(runs / reference, "tokens")
    assert values(runs / mode, "dev_sop_accuracy") == values(runs / reference, "dev_sop_accuracy")
    expected_weights = weights(runs / reference)
    for name, tensor in weights(runs / mode).items():
        torch.testing.assert_close(tensor, expected_weights[name], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_a_loss_that_is_not_finite_on_one_process_stops_the_step_of_all(
    runs: Path, mode: str
) -> None:
    (found,), (expected,) = (
        [line for line in RunFolder.open(run).metrics() if line.get("event") == "nonfinite"]
        for run in (runs / f"{mode}-poisoned", runs / "single-poisoned")
    )
    assert found["step"] == POISONED_STEP
    assert found["addresses"] == expected["addresses"]


def test_bytes_are_those_of_the_gradients(runs: Path) -> None:
    num_bytes = 4 * sum(tensor.numel() for tensor in weights(runs / "ddp").values())
    assert set(values(runs / "single", "bytes_per_step")) == {0}
    assert set(values(runs / "ddp", "bytes_per_step")) == {num_bytes}
    assert set(values(runs / "fsdp", "bytes_per_step")) == {2 * num_bytes}


def test_processes_that_disagree_are_refused(runs: Path) -> None:
    refused = json.loads((runs / "refused.json").read_text())
    for case in ("config", "model", "parallel"):
        assert "process 1 has another configuration" in refused[case]
    assert "process 1 has another data" in refused["data"]
    assert 'parallel is "none"' in refused["none"]
    assert not (runs / "refused").exists()


def test_processes_without_a_group_are_refused(tiny_shards_dir: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "litebert", "pretrain", "--data", str(tiny_shards_dir)]
    command += ["--out", str(tmp_path / "run"), "--steps", "1"]
    environment = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    environment.pop("MASTER_ADDR", None)
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "no process group to join: start with torchrun" in answer.stderr
    assert "Traceback" not in answer.stderr
