"""Progress of long work on standard error: a live bar on a terminal, sparse lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SECONDS_BETWEEN_LINES = 10.0


class Progress(Protocol):
    """What long work reports to."""

    def advance(self, amount: float = 1.0) -> None:
        """Count finished work."""

    def update(self, text: str) -> None:
        """Replace the short status text shown beside the bar."""


@contextmanager
def progress(description: str, total: float | None = None, unit: str = "it") -> Iterator[Progress]:
    """Show progress with rate, in ``unit`` per second, and ETA while the block runs.

    >>> with progress("tokenising", total=155.0, unit="MB") as bar:
    ...     bar.advance(1.5)
    """
    if sys.stderr.isatty():
        with _terminal_bar(description, total, unit) as bar:
            yield bar
    else:
        lines = _LogLines(description, total, unit)
        yield lines
        lines.finish()


def say(line: str) -> None:
    """Print a line to standard error at once."""
    print(line, file=sys.stderr, flush=True)


def format_duration(seconds: float) -> str:
    """Return ``h:mm:ss`` or ``m:ss``."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@contextmanager
def _terminal_bar(description: str, total: float | None, unit: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
    )
    # What is printed meanwhile goes above the bar on a terminal, and untouched into a file or pipe.
    shared = sys.stdout.isatty()
    with RichProgress(*columns, console=Console(stderr=True), redirect_stdout=shared) as live:
        task = live.add_task(description, total=total, rate="", status="")
        started = time.monotonic()
        done = 0.0

        class Bar:
            def advance(self, amount: float = 1.0) -> None:
                nonlocal done
                done += amount
                rate = done / max(1e-9, time.monotonic() - started)
                live.update(task, advance=amount, rate=f"{rate:,.1f} {unit}/s")

            def update(self, text: str) -> None:
                live.update(task, status=text)

        yield Bar()


class _LogLines:
    """Prints a line now and then, so that a log stays short."""

    def __init__(self, description: str, total: float | None, unit: str) -> None:
        self.description, self.total, self.unit = description, total, unit
        self.done, self.status = 0.0, ""
        self.started = self.printed = time.monotonic()

    def advance(self, amount: float = 1.0) -> None:
        self.done += amount
        if time.monotonic() - self.printed >= SECONDS_BETWEEN_LINES:
            self._print()

    def update(self, text: str) -> None:
        self.status = text

    def finish(self) -> None:
        if time.monotonic() - self.started >= 1.0:
            self._print()

    def _print(self) -> None:
        self.printed = time.monotonic()
        rate = self.done / max(1e-9, self.printed - self.started)
        total = share = eta = ""
        if self.total:
            total, share = f"/{self.total:,.0f}", f" ({self.done / self.total:.0%})"
            left_s = (self.total - self.done) / rate if rate > 0 else 0.0
            eta = f", eta {format_duration(left_s)}"
        done = f"{self.description}: {self.done:,.0f}{total} {self.unit}{share}"
        status = f", {self.status}" if self.status else ""
        say(f"{done}, {rate:,.1f} {self.unit}/s{eta}{status}")
