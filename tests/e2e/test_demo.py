"""The demo goes the whole way, and does not redo what is finished."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from litebert.common.errors import InputError
from litebert.experiments.demo import DemoConfig, demo


def run(config: DemoConfig) -> str:
    screen = io.StringIO()
    model = demo(config, Console(file=screen, width=120))
    assert (model / "model.safetensors").is_file()
    return screen.getvalue()


def test_text_to_filled_masks_and_again(tmp_path: Path, python_text: Path) -> None:
    config = DemoConfig(out=tmp_path / "demo", corpus=python_text, steps=3)
    first = run(config)
    assert "pretrain albert-tiny" in first
    assert "Try next" in first
    assert "kept from an earlier run" not in first
    second = run(config)
    assert second.count("kept from an earlier run") == 3


def test_a_missing_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere does not exist"):
        demo(DemoConfig(out=tmp_path, corpus=tmp_path / "nowhere"), Console(file=io.StringIO()))
