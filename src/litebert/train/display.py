"""What a person sees of a running training: live lines on a terminal, sparse ones in a log."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from litebert.common.progress import SECONDS_BETWEEN_LINES, format_duration

_BAR_WIDTH = 30


@dataclass(frozen=True)
class StatusLine:
    """One moment of a training.

    >>> StatusLine(share=0.5, step=100, eta_s=60.0, figures=("loss 6.52",)).line()
    'step 100 (50%), eta 1:00 | loss 6.52'
    """

    share: float  # of the run that is done
    step: int
    eta_s: float
    figures: tuple[str, ...] = ()  # losses, accuracies and rates, most important first
    stage: str = ""  # settings that change while training
    dev: str = ""  # the latest evaluation
    title: str = ""  # what is trained, if not one model is pretrained

    def line(self) -> str:
        """The moment in one line."""
        title = f"{self.title}: " if self.title else ""
        head = f"{title}step {self.step:,} ({self.share:.0%}), eta {format_duration(self.eta_s)}"
        parts = [head, ", ".join(self.figures), self.stage, self.dev]
        return " | ".join(part for part in parts if part)


class Display:
    """What training reports to; this one is silent."""

    def show(self, status: StatusLine) -> None:
        """Show how it stands; called every step, shown now and then."""

    def note(self, text: str) -> None:
        """Print a line that stays."""

    def close(self) -> None:
        """Stop showing."""


def display(*, is_main: bool, quiet: bool = False) -> Display:
    """A live display on a terminal, sparse lines elsewhere, nothing on other processes."""
    if not is_main or quiet:
        return Display()
    return _Terminal() if sys.stderr.isatty() else _Log()


class _Log(Display):
    def __init__(self) -> None:
        self._shown = time.monotonic()

    def show(self, status: StatusLine) -> None:
        if time.monotonic() - self._shown >= SECONDS_BETWEEN_LINES:
            self._shown = time.monotonic()
            self.note(status.line())

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class _Terminal(Display):
    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._assemble = Text.assemble
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()
        self._shown = 0.0

    def show(self, status: StatusLine) -> None:
        if time.monotonic() - self._shown >= 0.25:
            self._shown = time.monotonic()
            done, figures = round(_BAR_WIDTH * min(1.0, status.share)), ", ".join(status.figures)
            text = self._assemble(
                (f"{status.title or 'pretraining'} ", "bold"),
                ("━" * done, "green"),
                ("━" * (_BAR_WIDTH - done), "bright_black"),
                f" {status.share:4.0%}  step {status.step:,}  eta {format_duration(status.eta_s)}",
                (f"  {status.stage}" if status.stage else "", "cyan"),
                f"\n  {figures}" if figures else "",
                (f"\n  {status.dev}" if status.dev else "", "dim"),
                overflow="ellipsis",
                no_wrap=True,
            )
            self._live.update(text, refresh=True)

    def note(self, text: str) -> None:
        self._console.print(text)

    def close(self) -> None:
        self._live.stop()
