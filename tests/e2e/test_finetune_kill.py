"""A fine-tuning killed without warning, twice, ends with the weights of the uninterrupted one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from litebert.interop.hf import load_model
from tiny_models import random_model_folder

TASK = Path(__file__).resolve().parents[2] / "examples" / "custom_task" / "classification.toml"
STEPS = 160


def start(model: Path, out: Path) -> subprocess.Popen[bytes]:
    settings = {
        "--model": model, "--out": out, "--steps": STEPS, "--lr": 5e-4, "--batch-size": 16,
        "--eval-every-steps": 20, "--dropout": 0.1, "--log-every-steps": 1, "--resume": "auto",
    }  # fmt: skip
    flags = [str(part) for pair in settings.items() for part in pair]
    command = [sys.executable, "-m", "litebert", "finetune", str(TASK), *flags]
    with out.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def lines(run: Path) -> list[dict[str, Any]]:
    """The logged lines; the last one may be cut."""
    path = run / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def kill_behind(process: subprocess.Popen[bytes], run: Path, step: int) -> None:
    """SIGKILL as soon as a checkpoint exists and a later step than ``step`` is in the log."""
    while process.poll() is None:
        reached = max((line["step"] for line in lines(run)), default=0)
        if reached > step and list(run.glob("checkpoints/step-*")):
            process.send_signal(signal.SIGKILL)
        time.sleep(0.01)
    assert process.returncode == -signal.SIGKILL, run.with_suffix(".log").read_text()
    assert not (run / "result.json").exists()


def test_two_kills_change_nothing(tiny_tokenizer_dir: Path, tmp_path: Path) -> None:
    model = random_model_folder(tmp_path / "start", "pretraining", tiny_tokenizer_dir)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert start(model, whole).wait() == 0
    kill_behind(start(model, parts), parts, 40)
    kill_behind(start(model, parts), parts, 100)
    assert start(model, parts).wait() == 0

    one, two = (load_model(run / "model").state_dict() for run in (whole, parts))
    assert all(torch.equal(one[name], two[name]) for name in one)
    results = [json.loads((run / "result.json").read_text()) for run in (whole, parts)]
    for key in ("scores", "best_step", "steps", "tokens"):
        assert results[0][key] == results[1][key], key
    predictions = Path("predictions", "dev", "dev-predictions.jsonl")
    assert (whole / predictions).read_bytes() == (parts / predictions).read_bytes()
    logged = [
        [(line["step"], line["loss"], line["grad_norm"]) for line in lines(run) if "loss" in line]
        for run in (whole, parts)
    ]
    assert [step for step, _, _ in logged[0]] == list(range(1, STEPS + 1))
    assert logged[0] == logged[1]  # every step once
    assert sum(line.get("event") == "resume" for line in lines(parts)) >= 1
    assert not (parts / "checkpoints").exists()
