"""Laws of the smallest building blocks."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from litebert.common.errors import extra_of, install_command, suggestion
from litebert.common.rng import derived_seed, rng

REPOSITORY = Path(__file__).parents[3]


def test_suggestion_names_the_nearest_word() -> None:
    assert suggestion("albert-bsae", ["albert-base", "bert-large"]) == " Did you mean 'albert-base'?"
    assert suggestion("zzz", ["albert-base"]) == ""


def test_messages_name_extras_that_exist_and_only_through_one_function() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    sources = {path: path.read_text() for path in (REPOSITORY / "src").rglob("*.py")}
    call = re.compile(r"(?:install_command|needs)\(['\"](\w+)['\"]")
    named = {name for text in sources.values() for name in call.findall(text)}
    assert named
    assert named <= set(project["optional-dependencies"])
    by_hand = re.compile(r"pip install\W+(litebert|\.)?\[|\[all\]")
    assert [path.name for path, text in sources.items() if by_hand.search(text)] == ["errors.py"]


def test_the_command_works_where_litebert_is_installed_and_no_index_has_it() -> None:
    try:
        installed = metadata.metadata("litebert").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        pytest.skip("litebert is not installed")
    wanted = re.findall(r"litebert\[\w+\]", install_command("onnx"))
    assert "onnx" in installed
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", *wanted]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_a_bare_source_tree_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    assert install_command("onnx") == "`pip install '.[onnx]'`"
    assert extra_of("torch") == "all"


def test_same_address_same_numbers_other_address_other_numbers() -> None:
    first = rng(1, "mask", 2, 3).integers(1 << 60, size=4)
    assert np.array_equal(first, rng(1, "mask", 2, 3).integers(1 << 60, size=4))
    others = [rng(2, "mask", 2, 3), rng(1, "pairs", 2, 3), rng(1, "mask", 3, 2), rng(1, "mask", 2)]
    for other in others:
        assert not np.array_equal(first, other.integers(1 << 60, size=4))


def test_addresses_do_not_run_together() -> None:
    assert derived_seed(1, "a", 11) != derived_seed(1, "a", 1, 1)
    assert 0 <= derived_seed(1, "a") < 2**63


def test_generator_is_uniform() -> None:
    means = [rng(0, "test", index).random(1000).mean() for index in range(20)]
    assert abs(float(np.mean(means)) - 0.5) < 0.01
