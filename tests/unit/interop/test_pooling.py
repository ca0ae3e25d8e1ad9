"""Pooling files: what is written is read again, and what others write too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from litebert.common.errors import CheckpointError
from litebert.interop.pooling import VectorRule
from litebert.model.config import Pooling


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalize", [True, False])
def test_what_is_written_is_read_again(tmp_path: Path, pooling: Pooling, normalize: bool) -> None:
    rule = VectorRule(pooling, normalize)
    rule.write(tmp_path, 32, 64)
    assert VectorRule.read(tmp_path) == rule


def test_a_folder_without_the_files_says_nothing(tmp_path: Path) -> None:
    assert VectorRule.read(tmp_path) is None


@pytest.mark.slow  # its import alone takes seconds
def test_sentence_transformers_reads_what_is_written_and_we_read_what_it_writes(tmp_path: Path) -> None:
    modules = pytest.importorskip("sentence_transformers.models")
    VectorRule("cls", True).write(tmp_path, 32, 64)
    pooling = modules.Pooling.load(str(tmp_path / "1_Pooling"))
    assert pooling.pooling_mode in ("cls", ("cls",))
    pooling.save(str(tmp_path / "1_Pooling"))  # in its present words
    assert VectorRule.read(tmp_path) == VectorRule("cls", True)


def test_vectors_are_means_or_first_states() -> None:
    states = np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)
    assert VectorRule().vector(states).tolist() == [2.0, 4.0]
    assert VectorRule("cls").vector(states).tolist() == [1.0, 2.0]
    assert np.linalg.norm(VectorRule("mean", True).vector(states)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "values", "line"),
    [
        ("modules.json", {}, "not a list"),
        ("modules.json", [{"type": "x.Dense", "path": "2"}], "'Pooling'"),
        ("1_Pooling/config.json", {"pooling_mode": "max"}, "pooling max"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "max_tokens"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, name: str, values: object, line: str) -> None:
    VectorRule().write(tmp_path, 32, 64)
    (tmp_path / name).write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=line):
        VectorRule.read(tmp_path)


def test_another_module_is_refused(tmp_path: Path) -> None:
    VectorRule().write(tmp_path, 32, 64)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "x.Dense"})
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(CheckpointError, match="module Dense"):
        VectorRule.read(tmp_path)
