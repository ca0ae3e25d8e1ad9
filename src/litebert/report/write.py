"""Write the report of a run folder, one self-contained HTML page; one table of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from litebert.common.errors import DataError, blame
from litebert.common.files import read_json, write_text
from litebert.common.runs import RESULT_FILE, RunFolder
from litebert.report.finetuning import finetuning_page, is_finetuning
from litebert.report.log import Record, number
from litebert.report.page import markdown_table
from litebert.report.pretraining import pretraining_page
from litebert.report.runs import differences, run_settings, settings_text

_SHARES = ("mnli", "sst2", "race")
"""Tasks of the paper's Avg whose score is a share."""

_HEADER = (
    "run", "task", "metric", "dev score", "baseline", "trained on", "epochs", "steps", "scored",
    "minutes", "settings",
)  # fmt: skip


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
    """Return a Markdown table with a line for each finished fine-tuning run.

    Its last column has the settings that are not the same in all of them.
    """
    cells = [_cells(run) for run in runs]
    settings = map(settings_text, differences([run_settings(run) for run in runs]))
    rows = [
        [run.as_posix(), *row, different]
        for run, row, different in zip(runs, cells, settings, strict=True)
    ]
    text = markdown_table(_HEADER, rows)
    average = paper_average([read_json(run / RESULT_FILE) for run in runs])
    if average is not None:
        text += f"\nAvg as in the paper (of five tasks; SQuAD: mean of F1 and EM): {average:.1f}\n"
    return text


def paper_average(results: Sequence[Record]) -> float | None:
    """The paper's Avg in percent: SQuAD 1.1 and 2.0 (F1 and EM averaged first), MNLI, SST-2, RACE.

    None unless each of the five has exactly one result.
    """
    found: dict[str, list[float]] = {task: [] for task in ("squad1", "squad2", *_SHARES)}
    for result in results:
        task = str(result.get("task"))
        if task in _SHARES:
            found[task].append(100.0 * number(result, "scores", "accuracy"))
        elif task in found:
            # Of SQuAD 2.0 those of the threshold tuned on dev, as published scores are.
            names = ("f1", "exact_match") if task == "squad1" else ("best_f1", "best_exact")
            found[task].append(sum(number(result, "scores", name) for name in names) / 2)
    if any(len(scores) != 1 for scores in found.values()):
        return None
    return sum(scores[0] for scores in found.values()) / len(found)


def _cells(run: Path) -> list[str]:
    path = run / RESULT_FILE
    if not path.is_file():
        raise DataError(f"{run} has no {RESULT_FILE}: it is not a finished fine-tuning run")
    result = read_json(path)
    metric, seeds = str(result.get("metric")), result.get("by_seed")
    score = f"{number(result, 'scores', metric):.4g}"
    if isinstance(seeds, Sequence) and seeds:
        score += f" (median of {len(seeds)}, spread {number(result, 'spread', metric):.3g})"
    return [
        str(result.get("task")),
        metric,
        score,
        f"{number(result, 'baseline', metric):.4g}",
        _share(result, "train_examples", "train_available"),
        f"{number(result, 'epochs'):.3g}",
        f"{number(result, 'steps'):,.0f}",
        _share(result, "dev_examples", "dev_available"),
        f"{number(result, 'seconds') / 60:.1f}",
    ]


def _share(result: Record, key: str, whole_key: str) -> str:
    part, whole = number(result, key), number(result, whole_key)
    return f"{part:,.0f} of {whole:,.0f}" if part < whole else f"all {part:,.0f}"
