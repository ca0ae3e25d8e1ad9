"""The page and the table of fine-tuning runs: every part, several seeds, unfinished runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from litebert.cli import main
from litebert.common.errors import DataError
from litebert.common.runs import RunFolder
from litebert.report.write import score_table, write_report, write_reports

CONFIG = {"task": "rte", "model": "runs/<base>", "seed": 0, "weight_decay": 0.01}
RESULT = {
    "run": "r", "task": "rte", "metric": "accuracy", "scores": {"accuracy": 0.625},
    "baseline": {"accuracy": 0.5271}, "other_scores": {"dev_other": {"accuracy": 0.6111}},
    "best_step": 20, "steps": 40, "epochs": 2.0, "train_examples": 100, "train_available": 2490,
    "dev_examples": 277, "dev_available": 277, "tokens": 4000, "seconds": 90.0,
    "exit_scores": {"1": 0.5556, "2": 0.625}, "baselines": {"words": {"accuracy": 0.5556}},
}  # fmt: skip
MISTAKES = {
    "split": "dev",
    "kind": "classification",
    "confusion": {"labels": ["yes", "<no>"], "matrix": [[30, 10], [5, 55]]},
    "classes": [{"class": "<no>", "precision": 0.8462, "recall": 0.9167, "f1": 0.88, "count": 60}],
    "worst": [{"id": "1", "text": "a <b>", "text_pair": "c", "gold": "yes", "predicted": "<no>",
               "badness": 0.973}],
}  # fmt: skip


def write_run(path: Path, *, finished: bool = True, score: float = 0.625) -> Path:
    run = RunFolder.create(path, CONFIG, {"run": 0})
    run.event("recipe", 0, lr=2e-4, batch_size=32, warmup_steps=4)
    run.event("data", 0, train_examples=100, train_features=120, bad_rows={"unknown label": 3})
    run.event("answers", 0, exact=97, widened=2, lost=1)
    for step in range(1, 41):
        values = {"loss": 1 / step, "lr": 1e-4, "grad_norm": 1.0}
        run.log(step, {**values, "tokens": 100 * step, "elapsed_s": 2.0 * step})
        if step % 10 == 0:
            run.log(step, {"dev_accuracy": score - abs(step - 20) / 1000, "eval_s": 1.0})
    run.event("resume", 30)
    if finished:
        (path / "mistakes.json").write_text(json.dumps(MISTAKES))
        result = {**RESULT, "scores": {"accuracy": score}}
        (path / "result.json").write_text(json.dumps(result))
    return path


def write_seeds(path: Path) -> Path:
    RunFolder.create(path, {**CONFIG, "seeds": 3}, {"run-0": 0})
    scores = (0.61, 0.65, 0.63)
    for seed, score in enumerate(scores):
        write_run(path / f"seed-{seed}", score=score)
    by_seed = [{"seed": float(seed), "accuracy": score} for seed, score in enumerate(scores)]
    summary = {"scores": {"accuracy": 0.63}, "spread": {"accuracy": 0.04}, "by_seed": by_seed}
    (path / "result.json").write_text(json.dumps({**RESULT, **summary}))
    return path


def visible(page: str) -> str:
    return re.sub(r"<[^>]+>", " ", page)


def test_every_part_is_on_one_page_without_outside_resources(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run")).read_text()
    assert not re.search(r"(src|href)\s*=|@import|url\(", page)
    for heading in ("Scores", "Curves", "Confusion", "Worst mistakes", "Recipe", "Data", "Events"):
        assert f"<h2>{heading}</h2>" in page, heading
    assert page.count("<svg") == 4
    assert "best (step 20)" in page
    assert "runs/&lt;base&gt;" in page
    text = visible(page)
    for figure in ("0.625", "0.5271", "0.6111", "0.973", "unknown label", "0.0002", "0.5556"):
        assert figure in text, figure
    assert "a &lt;b&gt;\nc" in page
    assert "53 tokens per second" in re.sub(r"\s+", " ", text)  # 4,000 in 80 s less 4 s of dev


def test_every_class_has_its_scores_and_numbers_their_error(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    page = visible(write_report(path).read_text())
    assert re.search(r"&lt;no&gt;\s+0\.8462\s+0\.9167\s+0\.88\s+60", page)
    result = json.loads((path / "result.json").read_text())
    result["scores"], result["baseline"] = {"accuracy": 0.9, "mae": 0.3}, {"mae": 1.2}
    (path / "result.json").write_text(json.dumps(result))
    assert "always saying the mean: 1.2" in visible(write_report(path).read_text())


def test_the_confusion_matrix_has_gold_labels_as_rows(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run")).read_text()
    table = re.search(r'<table class="confusion">.*?</table>', page)
    assert table is not None
    rows = [visible(row).split() for row in table[0].split("</tr>")]
    assert rows[:3] == [
        ["yes", "&lt;no&gt;", "all"],
        ["yes", "30", "75%", "10", "25%", "40"],
        ["&lt;no&gt;", "5", "8%", "55", "92%", "60"],
    ]


def test_several_seeds_share_a_page_and_have_their_own(tmp_path: Path) -> None:
    run = write_seeds(tmp_path / "run")
    page = write_reports(run).read_text()
    for text in ("Seeds", "seed-0", "seed-2", "median of 3 seeds", "0.04", "0.65"):
        assert text in page, text
    assert all((run / f"seed-{seed}" / "report.html").is_file() for seed in range(3))


def test_a_run_that_goes_on_has_a_page_too(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run", finished=False)).read_text()
    assert "not finished" in page
    assert "best dev accuracy so far" in page
    fresh = tmp_path / "fresh"
    RunFolder.create(fresh, CONFIG, {})
    assert "Settings" in write_report(fresh).read_text()


def test_the_table_says_what_was_learned_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write_run(tmp_path / "one"), write_seeds(tmp_path / "three")]
    table = score_table(runs)
    assert "| rte | accuracy | 0.625 | 0.5271 | 0.5556 | 100 of 2,490 | 2 | 40 | all 277 | 1.5 |" in table
    assert "0.63 (median of 3: 0.61 to 0.65)" in table
    assert "bag of words" in table
    assert "random weights" not in table, "a baseline that no run has"
    main(["report", *map(str, runs), "--table", str(tmp_path / "table.md")])
    assert table in capsys.readouterr().out
    assert (tmp_path / "table.md").read_text() == table
    with pytest.raises(DataError, match="not a finished fine-tuning run"):
        score_table([write_run(tmp_path / "going", finished=False)])


def test_the_table_has_every_seed_of_random_weights(tmp_path: Path) -> None:
    run = write_seeds(tmp_path / "run")
    write_seeds(run / "random")
    result = json.loads((run / "result.json").read_text())
    result["baselines"] |= {"random": result["scores"]}
    (run / "result.json").write_text(json.dumps(result))
    header, _, row = (line.split(" | ") for line in score_table([run]).splitlines())
    assert row[header.index("random weights")] == "0.63 (median of 3: 0.61 to 0.65)"
