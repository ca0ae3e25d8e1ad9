"""The bundled models: found by their names and by default, and part of the wheel."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from litebert import bundled
from litebert.cli import run
from litebert.common.errors import CheckpointError
from litebert.interop.folder import load_config, resolve
from litebert.serve.config import ServeConfig
from litebert.serve.service import Service

REPOSITORY = Path(__file__).resolve().parents[2]
TASK = REPOSITORY / "examples" / "custom_task" / "classification.toml"


@pytest.fixture
def installed(model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that the package carries a tiny model."""
    folder = model_folder("pretraining")
    monkeypatch.setattr(bundled, "bundled_folder", lambda name="": folder)
    return folder


def test_without_weights_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "bundled_folder", lambda name="": tmp_path / "model")
    for arguments in (
        ["fill-mask", "a [MASK]."],
        ["predict", "embed"],
        ["export", "onnx", "bundled", str(tmp_path / "out")],
        ["finetune", str(TASK), "--out", str(tmp_path / "run")],
        ["analyze", "layers", "--input", str(TASK)],
        ["serve", "--port", "0"],
    ):
        with pytest.raises(CheckpointError, match="give a model folder") as error:
            run(arguments)
        assert "\n" not in str(error.value)
        assert not (tmp_path / "run").exists()


def test_its_name_is_a_model(installed: Path) -> None:
    assert resolve("bundled") == installed
    assert resolve(Path("bundled")) == installed
    assert resolve("bundled-sentences") == installed


def test_commands_take_it_by_default(installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["fill-mask", "return a new [MASK].", "--json"])
    assert len(json.loads(capsys.readouterr().out)["masks"][0]) == 5
    run(["export", "onnx", "bundled", str(tmp_path / "out")])
    assert (tmp_path / "out" / "model.onnx").is_file()
    run(["finetune", str(TASK), "--out", str(tmp_path / "run"), "--steps", "2", "--json"])
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
    text = tmp_path / "text.txt"
    text.write_text("A dictionary maps keys to values. A list has an order.", encoding="utf-8")
    capsys.readouterr()
    run(["analyze", "layers", "--input", str(text), "--json"])
    found = json.loads(capsys.readouterr().out)[0]["layers"]
    assert len(found) == load_config(installed).num_layers


def test_the_server_takes_it_by_default(installed: Path) -> None:
    (model,) = Service.load(ServeConfig()).models
    assert "fill-mask" in model.abilities


def test_what_is_shipped_knows_some_english(capsys: pytest.CaptureFixture[str]) -> None:
    run(["fill-mask", "he was the [MASK] of the united states.", "--json"])
    (guesses,) = json.loads(capsys.readouterr().out)["masks"]
    assert "president" in [guess["token"] for guess in guesses]


def test_what_is_shipped_knows_which_sentences_are_near(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["A man is playing a guitar.", "A person plays music.", "The senate passed the law."]
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found = []
    for command in (["embed"], ["predict", "embed"]):
        run([*command, "--input", str(file)])
        lines = capsys.readouterr().out.splitlines()
        found.append(np.array([json.loads(line)["embedding"] for line in lines]))
    vectors, others = found
    assert np.array_equal(vectors, others)
    near, far = (np.dot(vectors[0], other) for other in vectors[1:])
    assert near > far + 0.1
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)


def test_the_wheel_takes_them_along() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["litebert"]
    package = REPOSITORY / "src" / "litebert"
    packed = {path for pattern in patterns for path in package.glob(pattern)}
    assert {path for path in (package / "bundled").glob("*/**/*") if path.is_file()} <= packed
