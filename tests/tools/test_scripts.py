"""The scripts of the project itself: each says what it does, and none writes half a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from exactness import page

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.parametrize("script", ["bundle", "exactness", "file_map", "pictures"])
def test_a_script_has_help(script: str) -> None:
    command = [sys.executable, str(TOOLS / f"{script}.py"), "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"usage: {script}.py" in answer.stdout


def test_a_page_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds no records"):
        page(tmp_path)
    record = {"reference": "theirs", "max_difference": 1.5e-7, "command": "pytest a"}
    (tmp_path / "a.json").write_text(json.dumps(record), encoding="utf-8")
    assert page(tmp_path).endswith("| theirs | 1.5e-07 | `pytest a` |\n")
