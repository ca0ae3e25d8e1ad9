"""Stages one after another: what is finished is kept, what follows a redone one is redone."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.demo.folder import DemoFolder
from litebert.demo.show import Screen


class StageInterrupted(Exception):
    """A signal asked to stop; the stage has saved its work."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"signal {signum}")
        self.signum = signum


@dataclass(frozen=True)
class Stage:
    """One step of the way."""

    name: str
    """its key in ``demo.json``"""
    title: str
    """what is going to happen"""
    outputs: tuple[Path, ...]
    """what it makes; the last of them is written last and proves that it is finished"""
    work: Callable[[DemoFolder], None]
    """makes them"""
    show: Callable[[DemoFolder, Screen], None]
    """says what was made"""
    resumes: bool = False
    """the work goes on where an interruption left it; otherwise it begins anew"""
    needs_task: bool = False
    """there is nothing to do without a labelled task"""

    def forget(self) -> None:
        """Remove what it made: an earlier stage was redone, or its work is half done."""
        for path in self.outputs:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def run_stages(stages: Sequence[Stage], folder: DemoFolder, screen: Screen) -> None:
    """Run every stage that is not finished yet, and show what each has made."""
    for number, stage in enumerate(stages, start=1):
        head = f"[{number:>2}/{len(stages)}] "
        if stage.needs_task and not folder.has_task:
            screen.stage(head, stage.title, "skipped: there is no labelled task")
            continue
        if stage.outputs[-1].exists():
            before = folder.seconds().get(stage.name)
            took = "" if before is None else f" (it took {before:.1f} s)"
            screen.stage(head, stage.title, f"kept from an earlier run{took}")
        else:
            screen.stage(head, stage.title)
            for outdated in stages[number if stage.resumes else number - 1 :]:
                outdated.forget()
            started = time.monotonic()
            stage.work(folder)
            seconds = time.monotonic() - started
            folder.record(stage.name, seconds)
            screen.line(f"done in {seconds:.1f} s", style="green")
        stage.show(folder, screen)
