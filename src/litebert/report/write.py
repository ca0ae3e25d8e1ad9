"""Write the report of a run folder, one self-contained HTML page; one table of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from litebert.common.errors import DataError, blame
from litebert.common.files import read_json, write_text
from litebert.common.runs import RESULT_FILE, RunFolder
from litebert.report.finetuning import finetuning_page, is_finetuning
from litebert.report.log import Record, number
from litebert.report.pretraining import pretraining_page
from litebert.report.runs import differences, run_settings, settings_text

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
    lines = [f"| {' | '.join(_HEADER)} |", f"|{' --- |' * len(_HEADER)}"]
    cells = [_cells(run) for run in runs]
    settings = map(settings_text, differences([run_settings(run) for run in runs]))
    for run, row, different in zip(runs, cells, settings, strict=True):
        lines.append(f"| {' | '.join([run.as_posix(), *row, different])} |")
    return "\n".join(lines) + "\n"


def _cells(run: Path) -> list[str]:
    path = run / RESULT_FILE
    if not path.is_file():
        raise DataError(f"{run} has no {RESULT_FILE}: it is not a finished fine-tuning run")
    result = read_json(path)
    metric = str(result.get("metric"))
    seeds = result.get("by_seed")
    score = f"{number(result, 'scores', metric):.4g}"
    if isinstance(seeds, Sequence) and seeds:
        spread = number(result, "spread", metric)
        score += f" (median of {len(seeds)}, spread {spread:.3g})"
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
