"""Progress of long work on standard error: a live bar on a terminal, sparse lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """What long work reports to; prints a line now and then, so that a log stays short."""

    def __init__(self, description: str, total: float | None, unit: str) -> None:
        self.description, self.total, self.unit = description, total, unit
        self.done, self.status = 0.0, ""
        self.started = self.printed = time.monotonic()

    def advance(self, amount: float = 1.0) -> None:
        """Count finished work."""
        self.done += amount
        self.show()

    def update(self, text: str) -> None:
        """Replace the short status text shown beside the bar."""
        self.status = text
        self.show()

    def show(self) -> None:
        """Print a line if the last one was some time ago."""
        if time.monotonic() - self.printed >= SECONDS_BETWEEN_LINES:
            self.print_line()

    def print_line(self) -> None:
        """Print how far the work is."""
        self.printed = time.monotonic()
        total = share = eta = ""
        if self.total:
            total, share = f"/{self.total:,.0f}", f" ({self.done / self.total:.0%})"
            left_s = (self.total - self.done) / self.rate if self.done else 0.0
            eta = f", eta {format_duration(left_s)}"
        done = f"{self.description}: {self.done:,.0f}{total} {self.unit}{share}"
        status = f", {self.status}" if self.status else ""
        say(f"{done}, {self.rate:,.1f} {self.unit}/s{eta}{status}")

    @property
    def rate(self) -> float:
        """Finished work per second."""
        return self.done / max(1e-9, time.monotonic() - self.started)


class _Bar(Progress):
    """A bar that moves on a terminal."""

    def __init__(self, live: RichProgress, description: str, total: float | None, unit: str) -> None:
        super().__init__(description, total, unit)
        self.live, self.task = live, live.add_task(description, total=total, rate="", status="")

    def show(self) -> None:
        self.live.update(self.task, completed=self.done, rate=f"{self.rate:,.1f} {self.unit}/s", status=self.status)


@contextmanager
def progress(description: str, total: float | None = None, unit: str = "it") -> Iterator[Progress]:
    """Show progress with rate, in ``unit`` per second, and ETA while the block runs."""
    if not sys.stderr.isatty():
        lines = Progress(description, total, unit)
        yield lines
        if time.monotonic() - lines.started >= 1.0:
            lines.print_line()
        return
    from rich import progress as rich
    from rich.console import Console

    before = "[bold]{task.description}", rich.BarColumn(), "{task.percentage:>3.0f}%", "{task.fields[rate]}"
    after = rich.TimeElapsedColumn(), "eta", rich.TimeRemainingColumn(), "{task.fields[status]}"
    # What is printed meanwhile goes above the bar on a terminal, and untouched into a file or pipe.
    console, shared = Console(stderr=True), sys.stdout.isatty()
    with rich.Progress(*before, *after, console=console, redirect_stdout=shared) as live:
        yield _Bar(live, description, total, unit)


def say(line: str) -> None:
    """Print a line to standard error at once."""
    print(line, file=sys.stderr, flush=True)


def format_duration(seconds: float) -> str:
    """Return ``h:mm:ss`` or ``m:ss``."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
