"""`litebert report`: the page of a run, and one table of many fine-tuning runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from litebert.common.files import write_text
from litebert.common.ownership import keep_files
from litebert.report.plots import plot_runs
from litebert.report.write import score_table, write_reports


def report(
    run: Annotated[tuple[Path, ...], Parameter(negative="")],
    /,
    *,
    table: Path | None = None,
    plot: Path | None = None,
    metric: str | None = None,
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
