"""The table of outputs in docs/serving.md is that of the files we write."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from litebert.model.head_table import HEADS

PAGE = Path(__file__).parents[4] / "docs" / "serving.md"


def rows() -> dict[str, list[str]]:
    """Return head -> names of outputs, as the page has them."""
    _, _, after = PAGE.read_text(encoding="utf-8").partition("| head | outputs")
    table, _, _ = after.partition("\n\n")
    found = re.findall(r"^\| (\w+) \| (.+) \|$", table, re.MULTILINE)
    return {head: re.findall(r"`(\w+)`", outputs) for head, outputs in found}


def test_every_head_has_a_row() -> None:
    assert rows().keys() == HEADS.keys()


@pytest.mark.parametrize("head", list(HEADS))
def test_the_row_lists_the_outputs_in_order(head: str, onnx_folder: Callable[..., Path]) -> None:
    graph = onnx.load(str(onnx_folder(head) / "model.onnx")).graph
    assert [output.name for output in graph.output] == rows()[head]
