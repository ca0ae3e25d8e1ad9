"""Fine-tuning under torchrun: the losses, scores and weights of one process; resume; refusals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from litebert.common.runs import RunFolder
from litebert.model.config import ModelConfig
from litebert.train.finetuning.engine import finetune
from small_finetuning import (
    EXAMPLES,
    POISONED_STEP,
    STOPPED_STEP,
    poison,
    signal_at,
    small_finetuning,
)
from small_run import assert_bitwise_equal, weights
from tiny_models import random_model_folder

TOLERANCE = 1e-5
# Pairs are read through a whitened pooler, which enlarges directions that hardly vary and their
# rounding with them: on some processors by this much, before the loss shows it.
WHITENED_GRADIENTS = 1e-4
# Texts of kind similarity are compared with all others of a step, in one process.
KINDS = sorted(path.stem for path in EXAMPLES.glob("*.toml") if path.stem != "similarity")
TINY = ModelConfig(
    vocab_size=1000, embedding_size=16, hidden_size=32, num_heads=2, num_layers=3, max_positions=128
)


def torchrun(worker: str, *arguments: object) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=1"]
    path = str(Path(__file__).with_name(worker))
    command = [*launcher, "--nproc-per-node=2", path, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr[-4000:]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Path:
    """A folder with random weights."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    return random_model_folder(folder, "pretraining", tiny_tokenizer_dir, TINY)


@pytest.fixture(scope="module")
def runs(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every mode's run folder; those of a single process are made first."""
    out = tmp_path_factory.mktemp("modes")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for kind in KINDS:
        finetune(small_finetuning(model, out / kind, kind))
    finetune(small_finetuning(model, out / "paper", "span_extraction", head="paper"))
    base = small_finetuning(model, out, "classification")
    finetune(replace(base, out=out / "exits", train_exits=True))
    finetune(replace(base, out=out / "one", batch_size=1))
    finetune(replace(base, out=out / "seeds", seeds=2, keep_checkpoints=2))
    with pytest.MonkeyPatch.context() as patch:
        poison(patch)
        finetune(replace(base, out=out / "poisoned"))
    with pytest.MonkeyPatch.context() as patch:
        signal_at(patch, STOPPED_STEP, signal.SIGTERM)
        assert finetune(replace(base, out=out / "begun-alone")).steps == STOPPED_STEP
    (out / "data").mkdir()
    lines = (EXAMPLES / "tickets_train.csv").read_text().splitlines()
    (out / "data" / "tickets_train.csv").write_text("\n".join(lines[:-1]) + "\n")
    shutil.copy(EXAMPLES / "tickets_dev.csv", out / "data")
    shutil.copytree(model, out, dirs_exist_ok=True)
    torchrun("finetune_worker.py", model, out, ",".join(KINDS))
    finetune(replace(base, out=out / "ddp-then-alone", resume="auto"))
    torch.set_num_threads(threads)
    return out


def lines(run: Path) -> list[Any]:
    return list(RunFolder.open(run).metrics())


def values(run: Path, key: str) -> list[float]:
    return [line[key] for line in lines(run) if key in line and "event" not in line]


@pytest.mark.parametrize(
    ("mode", "reference"),
    [
        *((f"ddp-{kind}", kind) for kind in KINDS),
        ("ddp-paper", "paper"),
        ("ddp-exits", "exits"),
        ("ddp-one", "one"),
        ("ddp-accumulation", "classification"),
        ("ddp-poisoned", "poisoned"),
        ("ddp-stopped", "classification"),
        ("begun-alone", "classification"),
        ("ddp-then-alone", "classification"),
        ("ddp-seeds/seed-0", "seeds/seed-0"),
        ("ddp-seeds/seed-1", "seeds/seed-1"),
    ],
)
def test_losses_scores_and_weights_agree(runs: Path, mode: str, reference: str) -> None:
    metric = json.loads((runs / reference / "result.json").read_text())["metric"]
    for key in ("loss", "grad_norm", f"dev_{metric}"):
        found, expected = values(runs / mode, key), values(runs / reference, key)
        assert expected
        is_whitened = key == "grad_norm" and reference == "pair_classification"
        bound = WHITENED_GRADIENTS if is_whitened else TOLERANCE
        assert found == pytest.approx(expected, abs=bound, rel=bound), key
    for key in ("step", "tokens"):
        assert values(runs / mode, key) == values(runs / reference, key)
    found, expected = (
        json.loads((runs / name / "result.json").read_text()) for name in (mode, reference)
    )
    for key in ("best_step", "steps", "tokens", "train_examples", "baseline"):
        assert found[key] == expected[key], key
    assert found["scores"] == pytest.approx(expected["scores"], abs=1e-4)
    expected_weights = weights(runs / reference)
    for name, tensor in weights(runs / mode).items():
        torch.testing.assert_close(tensor, expected_weights[name], rtol=0, atol=1e-4)
    files = [
        sorted(str(path.relative_to(runs / name)) for path in (runs / name).rglob("*.json*"))
        for name in (mode, reference)
    ]
    assert files[0] == files[1]


def test_several_seeds_have_one_result(runs: Path) -> None:
    found, expected = (
        json.loads((runs / name / "result.json").read_text()) for name in ("ddp-seeds", "seeds")
    )
    assert found["scores"] == pytest.approx(expected["scores"], abs=1e-4)
    assert len(found["by_seed"]) == 2
    assert (runs / "ddp-seeds" / "seed-1" / "model-2" / "model.safetensors").is_file()


def test_a_loss_that_is_not_finite_on_one_process_stops_the_step_of_all(runs: Path) -> None:
    (found,), (expected,) = (
        [line for line in lines(runs / name) if line.get("event") == "nonfinite"]
        for name in ("ddp-poisoned", "poisoned")
    )
    assert found["step"] == expected["step"] == POISONED_STEP
    assert found["examples"] == expected["examples"]
    assert len(found["examples"]) == 7


def test_the_interruption_is_recorded_once(runs: Path) -> None:
    events = [line["event"] for line in lines(runs / "ddp-stopped") if "event" in line]
    assert events == ["recipe", "data", "resume"]
    steps = [line["step"] for line in lines(runs / "ddp-stopped") if "loss" in line]
    assert steps == list(range(1, 9))


def test_processes_that_disagree_are_refused(runs: Path) -> None:
    refused = json.loads((runs / "refused.json").read_text())
    for case in ("config", "seeds", "model"):
        assert "process 1 has another configuration" in refused[case]
    assert "process 1 has another data" in refused["data"]
    assert not (runs / "refused").exists()


def test_killed_and_restarted_equals_undisturbed(model: Path, tmp_path: Path) -> None:
    torchrun("killed_finetune_worker.py", model, tmp_path / "straight", "undisturbed")
    torchrun("killed_finetune_worker.py", model, tmp_path / "killed", "disturbed")
    resumed = [line["step"] for line in lines(tmp_path / "killed") if line.get("event") == "resume"]
    assert len(resumed) == 1
    assert resumed[0] in (2, 4, 6)
    assert_bitwise_equal(weights(tmp_path / "straight"), weights(tmp_path / "killed"))
    losses = [values(tmp_path / name, "loss") for name in ("straight", "killed")]
    assert losses[0] == losses[1]


def test_processes_without_a_group_are_refused(model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "litebert", "finetune", str(EXAMPLES / "regression.toml")]
    command += ["--model", str(model), "--out", str(tmp_path / "run"), "--steps", "1"]
    environment = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    environment.pop("MASTER_ADDR", None)
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "no process group to join: start with torchrun" in answer.stderr
    assert "Traceback" not in answer.stderr
