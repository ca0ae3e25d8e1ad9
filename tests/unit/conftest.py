"""Tiny models of every head, as torch folders and as ONNX folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from litebert.model.head_table import Head
from tiny_models import random_model_folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Callable[[Head], Path]:
    """Return the torch folder of a head."""
    made: dict[Head, Path] = {}

    def folder(head: Head) -> Path:
        if head not in made:
            path = tmp_path_factory.mktemp("models") / head
            made[head] = random_model_folder(path, head, tiny_tokenizer_dir)
        return made[head]

    return folder


@pytest.fixture(scope="session")
def onnx_folder(tmp_path_factory: pytest.TempPathFactory, model_folder: Callable[[Head], Path]) -> Callable[..., Path]:
    """Return the ONNX folder of a head, float32 or int8."""
    from litebert.interop.onnx.export import export_onnx

    made: dict[tuple[Head, bool], Path] = {}

    def folder(head: Head, int8: bool = False) -> Path:
        if (head, int8) not in made:
            path = tmp_path_factory.mktemp("onnx") / f"{head}{'-int8' if int8 else ''}"
            export_onnx(model_folder(head), path, int8=int8)
            made[head, int8] = path
        return made[head, int8]

    return folder
