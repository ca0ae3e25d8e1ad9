"""`litebert analyze`: look inside a model (the paper's Figure 1 for any model and any text)."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path

from rich.console import Console
from rich.table import Table

from litebert.bundled import BUNDLED
from litebert.common.files import check_plot_path
from litebert.common.ownership import keep_files
from litebert.predict.layers import LayerAnalysis, analyze_layers, plot_layers, short_names


def layers(
    *,
    input: Path,
    model: tuple[str, ...] = (BUNDLED,),
    plot: Path | None = None,
    max_tokens: int = 20_000,
    length: int | None = None,
    json_: bool = False,
) -> None:
    """Measure how far, and by what angle, each layer moves the embeddings of a text.

    Examples:
        litebert analyze layers --model runs/base/model --input text.txt
        litebert analyze layers --model albert/ --model bert/ --input text.txt --plot figure1.png

    Args:
        input: text file, plain or compressed; blank lines separate documents.
        model: model folder, run folder or hub name; give it twice to see two models side by side;
            default: the small model that comes with litebert.
        plot: also draw the figure to this PNG, SVG or PDF file.
        max_tokens: look at this many tokens at most.
        length: longest window in tokens; by default what the model allows.
        json_: print JSON.
    """
    if plot is not None:
        check_plot_path(plot)
        keep_files(plot, [("--input", input)])
    analyses = [analyze_layers(name, input, max_tokens=max_tokens, length=length) for name in model]
    if plot is not None:
        plot_layers(analyses, plot)
    if json_:
        print(json.dumps([asdict(analysis) for analysis in analyses], indent=1))
    else:
        _print_table(analyses)


def _print_table(analyses: list[LayerAnalysis]) -> None:
    table = Table(title="Movement per layer: mean ± standard deviation over tokens")
    table.add_column("layer", justify="right")
    for name in short_names([analysis.model for analysis in analyses]):
        table.add_column(f"{name}\ndistance", justify="right")
        table.add_column("\nangle (degrees)", justify="right")
    side_by_side = zip_longest(*(analysis.layers for analysis in analyses))
    for number, found in enumerate(side_by_side, start=1):
        row = [str(number)]
        for layer in found:  # None where a model has fewer
            spreads = (layer.distance, layer.angle_degrees) if layer else ()
            row += [f"{spread.mean:.2f} ± {spread.std:.2f}" for spread in spreads] or ["", ""]
        table.add_row(*row)
    console = Console()
    console.print(table)
    for analysis in analyses:
        console.print(f"{analysis.model}: {analysis.num_tokens:,} tokens", highlight=False)
