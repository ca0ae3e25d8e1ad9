"""`litebert probe`: what the frozen states of a model say about a task."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from litebert.bundled import BUNDLED
from litebert.predict.backend import Threads

if TYPE_CHECKING:
    from litebert.train.probe import Features, ProbeResult, ProbeScore

_NAMES: dict[Features, str] = {
    "cls": "[CLS] of the last layer",
    "mean": "mean of its tokens",
    "table": "mean of the word table",
    "words": "no model: bag of words",
    "majority": "no text: always the same",
}


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
    json_: bool = False,
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
        json_: print JSON.
    """
    from litebert.train.probe import probe as run

    result = run(
        model,
        task,
        data,
        max_train=max_train,
        seed=seed,
        strict=strict,
        threads=threads,
        allow_unknown=allow_unknown,
    )
    if json_:
        print(json.dumps(asdict(result)))
    else:
        _print_table(result)


def _print_table(result: ProbeResult) -> None:
    unit = "accuracy in %, with 95 % intervals," if result.metric == "accuracy" else "Pearson"
    table = Table(title=f"{result.task}: {unit} of linear models on {result.split}")
    table.add_column("features")
    table.add_column("model", justify="right")
    table.add_column("random weights", justify="right")
    for features, name in _NAMES.items():
        found = result.find(features, "model") or result.find(features, "none")
        if found is not None:
            random = result.find(features, "random")
            cells = (_cell(result, found), "" if random is None else _cell(result, random))
            table.add_row(name.replace("[", r"\["), *cells)
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{result.model}; fitted on {result.train_examples:,} examples, scored on "
        f"{result.dev_examples:,}",
        markup=False,
    )


def _cell(result: ProbeResult, found: ProbeScore) -> str:
    if found.low is None or found.high is None:
        return f"{found.score:.3f}"
    text = f"{100 * found.score:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"
    if result.main_metric != result.metric:
        text += f"\n{result.main_metric} {found.scores[result.main_metric]:.3f}"
    return text
