"""Vocabularies that cannot be used: every command that meets one says so in a line, status 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from litebert.cli import main
from litebert.text.extend import _entry
from tiny_models import random_model_folder

Spoil = Callable[[Path], None]


def json_alone(folder: Path) -> dict[str, Any]:
    (folder / "spiece.model").unlink()
    values: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return values


def no_mask(folder: Path) -> None:
    parts = json_alone(folder)
    parts["model"]["vocab"] = [row for row in parts["model"]["vocab"] if row[0] != "[MASK]"]
    parts["added_tokens"] = [one for one in parts["added_tokens"] if one["content"] != "[MASK]"]
    (folder / "tokenizer.json").write_text(json.dumps(parts))


def words_without_mask(folder: Path) -> None:
    for name in ("spiece.model", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n")


def byte_level(folder: Path) -> None:
    parts = json_alone(folder)
    parts["model"] = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    parts["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    (folder / "tokenizer.json").write_text(json.dumps(parts))


def twins(folder: Path) -> None:
    parts = json_alone(folder)
    parts["model"]["vocab"][50] = parts["model"]["vocab"][60]
    (folder / "tokenizer.json").write_text(json.dumps(parts))


def spiece_twins(folder: Path) -> None:
    with (folder / "spiece.model").open("ab") as stream:
        stream.write(_entry("▁the", -5.0))
    (folder / "tokenizer.json").unlink()


def two_that_contradict(folder: Path) -> None:
    parts = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    parts["model"]["vocab"][40][0] += "x"
    (folder / "tokenizer.json").write_text(json.dumps(parts))


def two_kinds(folder: Path) -> None:
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")


REASONS: dict[Spoil, str] = {
    no_mask: "no piece [MASK]",
    words_without_mask: "no piece [MASK]",
    byte_level: "byte-level BPE",
    twins: "2 times",
    spiece_twins: "spiece.model",
    two_that_contradict: "contradict each other",
    two_kinds: "holds two vocabularies",
}


@pytest.mark.parametrize("spoil", REASONS, ids=lambda one: one.__name__)
def test_one_line_and_status_2(
    spoil: Spoil, tmp_path: Path, tiny_tokenizer_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = random_model_folder(tmp_path / "model", "pretraining", tiny_tokenizer_dir)
    spoil(model)
    text = tmp_path / "text.txt"
    text.write_text("Some text of two sentences. This is the second.\n")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    out = ["--out", str(tmp_path / "out")]
    for command in (
        ["tokenizer", "encode", "--tokenizer", str(model)],
        ["prepare", "--input", str(text), "--tokenizer", str(model), *out],
        ["fill-mask", "--model", str(model), "the [MASK]"],
        ["adapt", "--model", str(model), "--input", str(text), *out, "--steps", "1"],
        ["adapt", "--input", str(text), "--tokenizer", str(model), *out, "--steps", "1"],
    ):
        with pytest.raises(SystemExit) as stopped:
            main(command)
        said = capsys.readouterr().err.splitlines()
        assert stopped.value.code == 2, command
        assert said[-1].startswith("litebert: error: "), command
        assert REASONS[spoil] in said[-1], command
        assert not (tmp_path / "out" / "manifest.json").exists()
