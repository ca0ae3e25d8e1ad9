"""Curves of many runs in one picture (PNG, SVG or PDF), with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import atomic_path, check_plot_path
from litebert.common.runs import RunFolder
from litebert.report.log import Points, lines_with, number

METRICS = ("dev_masked_loss", "mlm_loss", "loss")
"""What is drawn unless said: the first of these that all runs have."""

# Okabe and Ito's colours, told apart by everyone.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def curve(run: Path, metric: str) -> Points:
    """(tokens, value) of a run's log; steps in place of tokens where it has none.

    The last evaluation is of more dev examples: beside the others it would look like a jump.
    """
    lines, size = lines_with(RunFolder.open(run).metrics(), metric), "dev_predictions"
    alike = [line for line in lines if line.get(size) == lines[0].get(size)]
    return tuple(
        (number(line, "tokens" if "tokens" in line else "step"), number(line, metric))
        for line in (alike if len(alike) > 1 else lines)
    )


def plot_runs(runs: Sequence[Path], path: Path, metric: str | None = None) -> str:
    """Draw one metric of several runs; the metric."""
    for name in [metric] if metric else METRICS:
        curves = {str(run): [curve(run, name)] for run in runs}
        if all(points for (points,) in curves.values()):
            plot_curves(curves, path, name)
            return name
    raise DataError(f"not every run has {metric or ' or '.join(METRICS)} in its metrics.jsonl")


def plot_curves(curves: Mapping[str, Sequence[Points]], path: Path, title: str) -> None:
    """Draw lines over tokens: those of one name, such as seeds, in one colour."""
    check_plot_path(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    panel = figure.subplots()
    for index, (name, lines) in enumerate(curves.items()):
        colour, style = _COLOURS[index % len(_COLOURS)], "-" if index < len(_COLOURS) else "--"
        for place, line in enumerate(line for line in lines if line):
            xs, ys = zip(*line, strict=True)
            marker, label = "o" if len(line) == 1 else None, None if place else name
            panel.plot(xs, ys, style, color=colour, marker=marker, linewidth=1.2, alpha=0.8, label=label)
    panel.set_title(title.replace("_", " "), fontsize=11, loc="left")
    panel.set_xlabel("tokens")
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.grid(axis="y", color="#dddddd", linewidth=0.7)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)
