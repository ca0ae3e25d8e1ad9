"""Look inside a model: `litebert analyze layers` (Figure 1 for any text) and `litebert probe`."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from litebert.bundled import BUNDLED
from litebert.commands.flags import AsJson
from litebert.common.files import check_plot_path
from litebert.common.ownership import keep_files
from litebert.predict.backend import Threads
from litebert.predict.layers import LayerAnalysis, analyze_layers, plot_layers, short_names

if TYPE_CHECKING:
    from litebert.train.probe import Features, ProbeResult, ProbeScore

_NAMES: dict[Features, str] = {
    "cls": "[CLS] of the last layer",
    "mean": "mean of its tokens",
    "table": "mean of the word table",
    "words": "no model: bag of words",
    "majority": "no text: always the same",
}


def layers(
    *,
    input: Path,
    model: tuple[str, ...] = (BUNDLED,),
    plot: Path | None = None,
    max_tokens: int = 20_000,
    length: int | None = None,
    json_: AsJson = False,
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
        _print_layers(analyses)


def _print_layers(analyses: list[LayerAnalysis]) -> None:
    table = Table(title="Movement per layer: mean ± standard deviation over tokens")
    names = short_names([analysis.model for analysis in analyses])
    for heading in ("layer", *(text for name in names for text in (f"{name}\ndistance", "\nangle (degrees)"))):
        table.add_column(heading, justify="right")
    for number, found in enumerate(zip_longest(*(analysis.layers for analysis in analyses)), start=1):
        row = [str(number)]
        for layer in found:  # None where a model has fewer
            spreads = (layer.distance, layer.angle_degrees) if layer else ()
            row += [f"{spread.mean:.2f} ± {spread.std:.2f}" for spread in spreads] or ["", ""]
        table.add_row(*row)
    console = Console()
    console.print(table)
    for analysis in analyses:
        console.print(f"{analysis.model}: {analysis.num_tokens:,} tokens", highlight=False)


def probe(
    *,
    task: str,
    model: str = BUNDLED,
    data: Path | None = None,
    max_train: int = 10_000,
    seed: int = 0,
    strict: bool = False,
    threads: Threads = "auto",
    allow_unknown: bool = False,
    json_: AsJson = False,
) -> None:
    """Fit linear models on the frozen states of a model, and score them on dev.

    Logistic regression for classes, ridge regression for numbers (scikit-learn), on [CLS] of the
    last layer, the mean of its tokens and the mean of the word table; beside them the same states
    of random weights in the model's shape, a bag of words without any model, and always saying the
    same. It shows what pretraining put where, in a minute and without fine-tuning.

    Examples:
        litebert probe --task sst2 --data glue
        litebert probe --model runs/small/model --task stsb --data glue --json
        litebert probe --model runs/small/model --task mytask.toml --max-train 2000

    Args:
        task: a benchmark with classes or numbers (cola sst2 mrpc stsb qqp mnli qnli rte wnli) or a
            TOML file that describes your own.
        model: a model folder, a run folder, a hub name, or an ONNX folder that gives its states
            (without the word table); default: the small model that comes with litebert.
        data: the folder with the task's train and dev files.
        max_train: fit on this many training examples, those that finetune would draw.
        seed: of the random weights.
        strict: stop at the first bad row.
        threads: of the processor; auto: all.
        allow_unknown: continue where the vocabulary does not know most of the text.
    """
    from litebert.train.probe import probe as run

    result = run(
        model, task, data, max_train=max_train, seed=seed, strict=strict, threads=threads, allow_unknown=allow_unknown
    )
    if json_:
        print(json.dumps(asdict(result)))
    else:
        _print_probe(result)


def _print_probe(result: ProbeResult) -> None:
    unit = "accuracy in %, with 95 % intervals," if result.metric == "accuracy" else "Pearson"
    table = Table("features", title=f"{result.task}: {unit} of linear models on {result.split}")
    for heading in ("model", "random weights"):
        table.add_column(heading, justify="right")
    for features, name in _NAMES.items():
        found = result.find(features, "model") or result.find(features, "none")
        if found is not None:
            cells = (_cell(result, one) for one in (found, result.find(features, "random")))
            table.add_row(name.replace("[", r"\["), *cells)
    console = Console(highlight=False)
    console.print(table)
    examples = f"fitted on {result.train_examples:,} examples, scored on {result.dev_examples:,}"
    console.print(f"{result.model}; {examples}", markup=False)


def _cell(result: ProbeResult, found: ProbeScore | None) -> str:
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.score:.3f}"
    text = f"{100 * found.score:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"
    if result.main_metric != result.metric:
        text += f"\n{result.main_metric} {found.scores[result.main_metric]:.3f}"
    return text
