"""From measures to verdicts, tables, pages and the evidence, without any training."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from litebert.cli import run as run_command
from litebert.common.errors import ConfigError
from litebert.common.files import write_json
from litebert.common.runs import RunFolder
from litebert.experiments.config import load_experiment
from litebert.experiments.execute import unfinished
from litebert.experiments.plan import Assignment, Record, plan_runs
from litebert.report.plots import curve

LOSSES = {"all": 5.0, "attention": 4.61, "ffn": 4.9, "none": 4.6, "two groups": 4.8}


@pytest.fixture
def finished(tiny_shards_dir: Path, tmp_path: Path) -> Path:
    """A folder in which all runs of Table 4 have come to an end, with made-up losses."""
    rng = np.random.default_rng(3)
    request = Assignment(tmp_path, data=(tiny_shards_dir,), seeds=3)
    for (condition, seed), run in plan_runs(load_experiment("table4"), request).items():
        log = RunFolder.create(run.config.out, {}, {})
        for step in (1, 2):
            log.log(step, {"tokens": 100 * step, "dev_masked_loss": 9.0 / step, "mlm_loss": 1.0})
        loss = LOSSES.get(condition, 6.0) + 0.1 * seed + rng.normal(0.0, 0.002)
        found = {"masked_loss": loss, "parameters": 1000, "seconds": 60.0, "tokens": 200}
        write_json(run.folder / "measures.json", found)
    return tmp_path


def test_a_finished_table_becomes_verdicts_and_pages(
    finished: Path, tiny_shards_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "table4", "table1", "table7", "--data", str(tiny_shards_dir)]
    run_command([*arguments, "--seeds", "3", "--out", str(finished)])
    said = capsys.readouterr().out
    assert "sharing the feed-forward hurts more than sharing attention: holds" in said
    result = json.loads((finished / "table4" / "result.json").read_text())
    answers = {finding["claim"]: finding["answer"] for finding in result["findings"]}
    assert set(answers.values()) == {"holds"}
    assert (result["runs"], result["seeds"], result["minutes"]) == (18, 3, 18.0)
    ours, paper = result["tables"]
    assert ours["heading"] == ["", "parameters", "loss at masks"]
    rows = {row[0]: row for row in ours["rows"] + paper["rows"]}
    assert rows["all"][1] == "1,000"
    assert rows["all"][2].startswith(("5.10", "5.09"))
    assert paper["title"] == "The paper's"
    assert rows["all, E 768"][-1] == "79.8"
    page = (finished / "table4" / "report.html").read_text()
    assert "data:image/png;base64" in page
    assert (finished / "table4" / "figure.png").read_bytes().startswith(b"\x89PNG")
    evidence = (finished / "evidence.md").read_text()
    assert "## Table 4" in evidence
    assert "Fine-tuned" not in evidence
    assert "it needs 2 folders of --data" in evidence
    exact = json.loads((finished / "table1" / "result.json").read_text())
    assert {finding["answer"] for finding in exact["findings"]} == {"holds"}


def test_a_dry_run_counts_what_is_left(
    finished: Path, tiny_shards_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "table4", "table8", "--data", str(tiny_shards_dir), "--seeds", "3"]
    run_command([*arguments, "--out", str(finished), "--dry-run"])
    lines = capsys.readouterr().out.splitlines()
    assert "18 runs,   0 to do" in lines[0]
    assert "6 runs,   6 to do" in lines[1]


def test_runs_of_another_machine_are_not_made_again(
    finished: Path, tiny_shards_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "table4", "--data", str(tiny_shards_dir), "--seeds", "3"]
    run_command([*arguments, "--out", str(finished)])
    page = finished.parent / "elsewhere" / "page.md"
    page.parent.mkdir()
    shutil.copy(finished / "evidence.jsonl", page.with_suffix(".jsonl"))
    there = ["--out", str(page.parent / "out"), "--evidence", str(page)]
    capsys.readouterr()
    run_command([*arguments, *there, "--dry-run"])
    assert "18 runs,   0 to do" in capsys.readouterr().out
    for _ in range(2):  # the second call finds a folder without runs
        run_command([*arguments, *there])
    first, second = (path / "table4" / "table.md" for path in (finished, page.parent / "out"))
    assert first.read_text() == second.read_text()
    assert (page.parent / "out" / "table4" / "figure.png").is_file()
    assert "Table 3: embedding size | With nothing shared" in page.read_text()  # not run
    run_command(["reproduce", "table1", "--data", str(tiny_shards_dir), *there])
    assert "| Table 1: sizes | 6 of 6 rows equal the paper's" in page.read_text()
    assert "| albert-base | 11,683,584 | 12 | 768 | 128 |" in page.read_text()
    assert page.with_suffix(".jsonl").read_text() == (finished / "evidence.jsonl").read_text()


def test_a_start_that_only_has_a_record_is_trained_for_those_that_need_its_model(
    finished: Path, tiny_shards_dir: Path
) -> None:
    request = Assignment(finished, data=(tiny_shards_dir,), seeds=1)
    runs = plan_runs(load_experiment("table4"), request)
    (runs["ffn", 0].folder / "measures.json").unlink()
    assert unfinished(list(runs.values())) == {runs["start", 0].key, runs["ffn", 0].key}
    runs["start", 0].model.mkdir()
    assert unfinished(list(runs.values())) == {runs["ffn", 0].key}
    more = Record(runs["start", 0].key, {"masked_loss": 1.0, "sst2.score": 0.7})
    known = replace(runs["start", 0], known=more)
    assert known.record() == more  # what was measured besides is not lost


def test_records_that_are_not_records(finished: Path, tiny_shards_dir: Path) -> None:
    (finished / "evidence.jsonl").write_text('{"key": "a", "measures": 3}\n')
    with pytest.raises(ConfigError, match=r"evidence.jsonl, line 1"):
        run_command(["reproduce", "table4", "--data", str(tiny_shards_dir), "--out", str(finished)])


def test_a_curve_is_of_the_same_dev_examples(tmp_path: Path) -> None:
    log = RunFolder.create(tmp_path / "run", {}, {})
    for step, (loss, size) in enumerate([(9.0, 50), (8.0, 50), (8.5, 400)], 1):
        log.log(step, {"tokens": step, "dev_masked_loss": loss, "dev_predictions": size})
    assert curve(tmp_path / "run", "dev_masked_loss") == ((1.0, 9.0), (2.0, 8.0))


def test_curves_of_several_runs_in_one_picture(finished: Path, tmp_path: Path) -> None:
    runs = sorted(str(path) for path in finished.glob("runs/*/pretrain"))[:2]
    run_command(["report", *runs, "--plot", str(tmp_path / "curves.svg")])
    assert "<svg" in (tmp_path / "curves.svg").read_text()
    with pytest.raises(Exception, match="not every run has nothing"):
        run_command(["report", *runs, "--plot", str(tmp_path / "b.png"), "--metric", "nothing"])
