"""The demo command: the whole way on one screen."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from litebert.experiments.demo import DemoConfig


def demo(*, config: Annotated[DemoConfig, Parameter(name="*")] = DemoConfig()) -> None:  # noqa: B008
    """Text to tokenizer to shards to a pretrained model, in a few minutes on a laptop.

    Examples:
        litebert demo
        litebert demo --budget 30s --out /tmp/demo
        litebert demo --corpus my-texts/
    """
    from rich.console import Console

    from litebert.experiments.demo import demo as run

    run(config, Console())
