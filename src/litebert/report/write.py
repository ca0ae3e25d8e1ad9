"""Write the report of a run folder, one self-contained HTML page; one table of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from litebert.common.errors import DataError, blame
from litebert.common.files import read_json, write_text
from litebert.common.runs import RESULT_FILE, RunFolder
from litebert.report.finetuning import finetuning_page, is_finetuning
from litebert.report.log import Record, number, read_if_there
from litebert.report.page import markdown_table
from litebert.report.pretraining import pretraining_page
from litebert.report.runs import differences, run_settings, settings_text

_PAPER_SCORES = {
    "squad1": ("f1", "exact_match"),
    # Of SQuAD 2.0 those of the threshold tuned on dev, as published scores are.
    "squad2": ("best_f1", "best_exact"),
    **dict.fromkeys(("mnli", "sst2", "race"), ("accuracy",)),
}
"""Tasks of the paper's Avg, and the scores whose mean counts."""


def write_report(run: Path | str, target: Path | str | None = None) -> Path:
    """Write the page of a run, by default its ``report.html``; the path of the page."""
    folder = RunFolder.open(run)
    path = Path(target) if target is not None else folder.path / "report.html"
    make = finetuning_page if is_finetuning(folder.manifest()) else pretraining_page
    with blame(f"a file of {folder.path}"):
        text = make(folder)
    write_text(path, text)
    return path


def write_reports(run: Path | str) -> Path:
    """Write the pages of a run and of each of its seeds; the path of the run's own."""
    for manifest in sorted(Path(run).glob("seed-*/manifest.json")):
        write_report(manifest.parent)
    return write_report(run)


def score_table(runs: Sequence[Path]) -> str:
    """A Markdown table of finished fine-tuning runs, at its end the settings that differ."""
    rows = [_row(run) for run in runs]
    for row, settings in zip(rows, differences(list(map(run_settings, runs))), strict=True):
        row["settings"] = settings_text(settings)
    text = markdown_table(list(rows[0]), [list(row.values()) for row in rows])
    average = paper_average([read_json(run / RESULT_FILE) for run in runs])
    if average is not None:
        text += f"\nAvg as in the paper (of five tasks; SQuAD: mean of F1 and EM): {average:.1f}\n"
    return text


def paper_average(results: Sequence[Record]) -> float | None:
    """The paper's Avg in percent: SQuAD 1.1 and 2.0 (F1 and EM averaged first), MNLI, SST-2, RACE.

    None unless each of the five has exactly one result.
    """
    found = [result for result in results if result.get("task") in _PAPER_SCORES]
    if sorted(str(result["task"]) for result in found) != sorted(_PAPER_SCORES):
        return None
    means = []
    for result in found:
        names = _PAPER_SCORES[str(result["task"])]
        percent = 100.0 if names == ("accuracy",) else 1.0
        means.append(percent * fmean(number(result, "scores", name) for name in names))
    return fmean(means)


def _row(run: Path) -> dict[str, str]:
    """What the table says of a run, by its headings."""
    result = read_if_there(run / RESULT_FILE)
    if not result:
        raise DataError(f"{run} has no {RESULT_FILE}: it is not a finished fine-tuning run")
    metric, seeds = str(result.get("metric")), result.get("by_seed")
    score = f"{number(result, 'scores', metric):.4g}"
    if isinstance(seeds, Sequence) and seeds:
        score += f" (median of {len(seeds)}, spread {number(result, 'spread', metric):.3g})"
    return {
        "run": run.as_posix(),
        "task": str(result.get("task")),
        "metric": metric,
        "dev score": score,
        "baseline": f"{number(result, 'baseline', metric):.4g}",
        "trained on": _share(result, "train_examples", "train_available"),
        "epochs": f"{number(result, 'epochs'):.3g}",
        "steps": f"{number(result, 'steps'):,.0f}",
        "scored": _share(result, "dev_examples", "dev_available"),
        "minutes": f"{number(result, 'seconds') / 60:.1f}",
    }


def _share(result: Record, key: str, whole_key: str) -> str:
    part, whole = number(result, key), number(result, whole_key)
    return f"{part:,.0f} of {whole:,.0f}" if part < whole else f"all {part:,.0f}"
