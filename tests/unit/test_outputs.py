"""No command writes over what it reads: every pair of an input and an output path."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from litebert.cli import main
from litebert.common.runs import RunFolder

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "custom_task"
TASK = str(EXAMPLES / "classification.toml")


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def place(tmp_path: Path, model_folder: Callable[..., Path], tiny_shards_dir: Path) -> Path:
    """Everything that commands read, below one folder, with links to it."""
    shutil.copytree(model_folder("pretraining"), tmp_path / "proj" / "model")
    shutil.copytree(tiny_shards_dir, tmp_path / "shards")
    shutil.copytree(EXAMPLES, tmp_path / "task")
    (tmp_path / "text.svg").write_text("A text. Another sentence.\n\nA second one.\n")
    (tmp_path / "rows.csv").write_text("text\nhello\n")
    run = RunFolder.create(tmp_path / "run", {"task": "x"}, {})
    run.log(1, {"loss": 1.0})
    (tmp_path / "link").symlink_to(tmp_path / "proj")
    (tmp_path / "same.csv").symlink_to(tmp_path / "rows.csv")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "finetune task/classification.toml --model proj/model --out proj",
        "finetune task/classification.toml --model proj/model --out link",
        "finetune task/classification.toml --model link/model --out proj",
        "finetune task/classification.toml --model proj --out proj/model",
        "finetune task/classification.toml --model proj/model --out task",
        "finetune task/classification.toml --model proj/model --data task --out task",
        "finetune task/classification.toml --model proj/model --out .",
        "sweep task/classification.toml --model proj/model --out proj",
        "sweep task/classification.toml --model proj/model --out task",
        "pretrain --data shards --out shards --steps 1",
        "pretrain --data shards --out shards --steps 1 --resume auto",
        "pretrain --data shards --out . --steps 1",
        "pretrain --data shards --init-from proj --out proj --steps 1 --resume auto",
        "prepare --input text.svg --tokenizer shards/tokenizer --out shards --restart",
        "prepare --input shards/sources.jsonl --tokenizer proj/model --out shards --restart",
        "prepare --input text.svg --tokenizer proj/model --out .",
        "prepare --input text.svg --tokenizer proj/model --out proj/model",
        "tokenizer train --input text.svg --out .",
        "tokenizer train --input text.svg --out proj/model",
        "export onnx proj/model proj/model",
        "export onnx proj/model proj",
        "export onnx proj/model link",
        "export checkpoint run run",
        "import hf proj/model proj/model",
        "import hf proj/model proj",
        "import tf proj proj/model",
        "demo --corpus text.svg --out .",
        "predict embed --model proj --input rows.csv --out rows.csv",
        "predict embed --model proj --input rows.csv --out same.csv",
        "predict embed --model proj --input rows.csv --out proj/model/answers.jsonl",
        "evaluate task/classification.toml --model proj --data task --out task",
        "evaluate task/classification.toml --model proj --out task",
        "evaluate task/classification.toml --model proj --out proj/model",
        "analyze layers --input text.svg --model proj --plot text.svg",
        "report run --table run/metrics.jsonl",
    ],
)
def test_an_input_is_never_overwritten(
    arguments: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    before = content(place)
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    assert stop.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("litebert: error: ")
    reasons = r"must not be overwritten|not of such a folder|is not empty|holds the data"
    assert re.search(reasons + "|no TensorFlow checkpoint", error), error
    assert content(place) == before
