"""The scripts of the project itself: each says what it does, and none writes half a page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pictures
import pytest
from exactness import page

from litebert.common.runs import RunFolder

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.parametrize("script", ["bundle", "exactness", "file_map", "lock", "pictures"])
def test_a_script_has_help(script: str) -> None:
    command = [sys.executable, str(TOOLS / f"{script}.py"), "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"usage: {script}.py" in answer.stdout


def test_the_lock_and_the_constraints_agree_and_name_no_index() -> None:
    root = TOOLS.parent
    texts = [(root / name).read_text() for name in ("constraints.txt", "requirements.lock")]
    pins = [set(re.findall(r"(?m)^[\w.-]+==[\w.+]+", text)) for text in texts]
    assert {pin for pin in pins[0] if pin.startswith("torch==")}
    assert len(pins[1]) > 20
    assert pins[1] < pins[0]
    assert not [line for text in texts for line in text.splitlines() if "://" in line]
    assert texts[1].count("--hash=sha256:") > len(pins[1])


def test_sentences_are_drawn_from_all_of_a_file(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from embed_sentences import drawn_sentences

    path = tmp_path / "text.txt"
    path.write_text("".join(f"This is sentence number {n}. Too short. \n" for n in range(500)))
    drawn = drawn_sentences(path, 50, "en", seed=0)
    assert len(drawn) == 50
    assert drawn == drawn_sentences(path, 50, "en", seed=0) != drawn_sentences(path, 50, "en", 1)
    numbers = [int(re.findall(r"number (\d+)\.", sentence)[0]) for sentence in drawn]
    assert min(numbers) < 100 < 400 < max(numbers)
    assert len(drawn_sentences(path, 1000, "en", seed=0)) == 500


def test_a_page_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds no records"):
        page(tmp_path)
    record = {"reference": "theirs", "max_difference": 1.5e-7, "command": "pytest a"}
    (tmp_path / "a.json").write_text(json.dumps(record), encoding="utf-8")
    assert page(tmp_path).endswith("| theirs | 1.5e-07 | `pytest a` |\n")


def test_a_run_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(pictures, "HERE", tmp_path)
    run = RunFolder.create(tmp_path / "run", {}, {})
    for step in (1, 2):
        run.log(step, {"mlm_loss": 7.0 - step})
        run.log(step, {"dev_mlm_loss": 6.5, "dev_mlm_accuracy": 0.1 * step})
    path = pictures.draw_run(run.path, "small")
    assert path == tmp_path / "small.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert pictures.draw_pipeline().read_text(encoding="utf-8").count("<rect") == 9
