"""Write the report of a run folder: one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from litebert.common.files import write_text
from litebert.common.runs import RunFolder
from litebert.report.finetuning import finetuning_page, is_finetuning
from litebert.report.pretraining import pretraining_page


def write_report(run: Path | str, target: Path | str | None = None) -> Path:
    """Write ``report.html`` of a run; the path of the page.

    Args:
        run: a run folder.
        target: where to write; default: into the run folder.
    """
    folder = RunFolder.open(run)
    path = Path(target) if target is not None else folder.path / "report.html"
    make = finetuning_page if is_finetuning(folder.manifest()) else pretraining_page
    write_text(path, make(folder))
    return path


def write_reports(run: Path | str) -> Path:
    """Write the pages of a run and of each of its seeds; the path of the run's own."""
    for manifest in sorted(Path(run).glob("seed-*/manifest.json")):
        write_report(manifest.parent)
    return write_report(run)
