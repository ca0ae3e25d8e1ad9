"""The demo command: the whole way on one screen."""

from __future__ import annotations

import sys
from typing import Annotated

from rich.console import Console

from litebert.commands.flags import SETTINGS
from litebert.demo.folder import DemoConfig


def demo(*, config: Annotated[DemoConfig | None, SETTINGS] = None) -> None:
    """Raw text to a pretrained, fine-tuned, exported and served model, in minutes on a laptop.

    Needs neither a GPU nor a network. Everything goes into one folder; interrupted, the same
    command continues where it was.

    Examples:
        litebert demo
        litebert demo --budget 2m --out /tmp/demo
        litebert demo --corpus my-texts/ --out my-demo
    """
    from litebert.demo.pipeline import demo as run
    from litebert.demo.show import Screen

    # A log has no width of its own; 80 columns would break the tables.
    console = Console() if sys.stdout.isatty() else Console(width=100)
    if signum := run(config or DemoConfig(), Screen(console)):
        sys.exit(128 + signum)
