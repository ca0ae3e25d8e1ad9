"""`litebert runs`: the runs below a folder, the best first."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.table import Table

from litebert.commands.flags import JSON
from litebert.report.runs import settings_text, summarize_runs


def runs(folder: Path, /, *, json_: Annotated[bool, JSON] = False) -> None:
    """List the runs below a folder: kind, state, steps, best figure, and what differs in settings.

    Sorted by kind and task, the best first. An unfinished run is still going, or was killed: when
    it last wrote tells which.

    Examples:
        litebert runs runs
        litebert runs sweep --json

    Args:
        folder: searched with all folders in it.
        json_: print a list of objects for programs.
    """
    found = summarize_runs(folder)
    if json_:
        print(json.dumps([asdict(run) for run in found], indent=1))
        return
    if not found:
        print(f"{folder} holds no runs")
        return
    table = Table(
        "run", "kind", "task", "state", "last wrote", "steps", "best", "different settings"
    )
    for run in found:
        best = "" if run.best is None else f"{run.metric} {run.best:.4g}"
        cells = (run.run, run.kind, run.task, run.state, run.updated, f"{run.steps:,}", best)
        table.add_row(*cells, settings_text(run.settings))
    # A log has no width of its own; 80 columns would break every cell.
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200)
    console.print(table)
