"""What run folders hold: `litebert report`, their pages and one table; `litebert runs`, a list."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from litebert.commands.flags import AsJson
from litebert.common.files import write_text
from litebert.common.ownership import keep_files
from litebert.report.plots import plot_runs
from litebert.report.write import score_table, settings_text, summarize_runs, write_reports


def report(
    run: tuple[Path, ...], /, *, table: Path | None = None, plot: Path | None = None, metric: str | None = None
) -> None:
    """Write report.html into run folders, also of runs that are still going.

    With --table the scores of fine-tuning runs are printed as one Markdown table and written
    to a file; with --plot a curve of every run is drawn in one picture.

    Examples:
        litebert report runs/small
        litebert report runs/sst2 runs/cola runs/rte --table scores.md
        litebert report runs/all runs/none runs/ffn --plot sharing.png --metric dev_mlm_accuracy

    Args:
        run: run folders of pretrain or finetune.
        table: file for the table of scores.
        plot: PNG, SVG or PDF file for the curves.
        metric: column of metrics.jsonl to draw; default: dev_masked_loss, or the training loss.
    """
    if table is not None:
        keep_files(table, [("run", folder) for folder in run])
        text = score_table(run)
        write_text(table, text)
        print(text, end="")
    if plot is not None:
        print(f"plot of {plot_runs(run, plot, metric)}: {plot}")
    for folder in run:
        print(f"report: {write_reports(folder)}")


def runs(folder: Path, /, *, json_: AsJson = False) -> None:
    """List the runs below a folder: kind, state, steps, best figure, and what differs in settings.

    Sorted by kind and task, the best first. An unfinished run is still going, or was killed: when
    it last wrote tells which.

    Examples:
        litebert runs runs
        litebert runs sweep --json

    Args:
        folder: searched with all folders in it.
    """
    found = summarize_runs(folder)
    if json_ or not found:
        print(json.dumps([asdict(run) for run in found], indent=1) if json_ else f"{folder} holds no runs")
        return
    table = Table("run", "kind", "task", "state", "last wrote", "steps", "best", "different settings")
    for run in found:
        best = "" if run.best is None else f"{run.metric} {run.best:.4g}"
        cells = (run.run, run.kind, run.task, run.state, run.updated, f"{run.steps:,}", best)
        table.add_row(*cells, settings_text(run.settings))
    # A log has no width of its own; 80 columns would break every cell.
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200).print(table)
