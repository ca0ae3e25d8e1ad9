"""`litebert adapt` killed with SIGKILL as soon as each stage has left something: the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiny_models import random_model_folder

pytestmark = pytest.mark.slow

RECIPE = """
batch_size = 4
examples = {length = 32, micro_batch_size = 4}
optimizer = {name = "adamw", lr = 1e-3}
evaluation = {every_steps = 0, examples = 8, final_examples = 8}
checkpoint = {every_steps = 2, keep_last = 9}
"""
MOMENTS = (
    "adapt.json", "tokenizer", "shards", "shards/manifest.json", "start",
    "pretraining/manifest.json", "pretraining/checkpoints/step-2", "pretraining/model",
)  # fmt: skip


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "litebert", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_the_same_bytes_after_every_kill(tmp_path: Path, python_text: Path, tiny_tokenizer_dir: Path) -> None:
    source = random_model_folder(tmp_path / "old", "pretraining", tiny_tokenizer_dir)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    common = ["adapt", "--model", str(source), "--input", str(python_text), "--steps", "6"]
    common += ["--recipe", str(tmp_path / "recipe.toml"), "--dev-fraction", "0.2"]
    common += ["--threads", "1", "--vocab-size", "600", "--freeze-share", "0.5"]
    assert start([*common, "--out", str(tmp_path / "straight")]).wait() == 0
    out = tmp_path / "killed"
    kills = 0
    for moment in MOMENTS:
        process = start([*common, "--out", str(out), "--resume", "auto"])
        while process.poll() is None and not (out / moment).exists():
            time.sleep(0.005)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= len(MOMENTS) - 2  # the last moments may be over before they are seen
    assert start([*common, "--out", str(out), "--resume", "auto"]).wait() == 0
    for file in sorted((tmp_path / "straight").rglob("*")):
        name = file.relative_to(tmp_path / "straight")
        if name.parts[0] in ("tokenizer", "start", "model") and file.name != "README.md":
            assert file.is_dir() or (out / name).read_bytes() == file.read_bytes(), name
    assert (out / "adapted.json").read_bytes() == (tmp_path / "straight" / "adapted.json").read_bytes()
