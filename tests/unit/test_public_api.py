"""The names of `litebert` itself: all resolve, and importing the package loads none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import litebert


@pytest.mark.parametrize("name", litebert.__all__)
def test_every_public_name_resolves(name: str) -> None:
    found = getattr(litebert, name)
    assert name in dir(litebert)
    assert name.startswith("__") or found.__name__ == name
    assert name.startswith("__") or found.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'finetuned'"):
        _ = litebert.finetuned


def test_the_import_alone_loads_nothing() -> None:
    code = "import litebert, sys; print(sorted(m for m in sys.modules if m.startswith('litebert')))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "['litebert']"
