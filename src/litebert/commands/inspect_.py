"""`litebert inspect`: what token shards hold and what examples drawn from them look like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from litebert.data.batches.example import ExampleConfig
from litebert.data.corpus.manifest import Split

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from litebert.data.batches.statistics import Histogram, Inspection, ShownExample

BAR_WIDTH = 24
MANY_WORDS = 7
STYLES = {
    "plain": "",
    "special": "dim",
    "masked": "bold red",
    "kept": "bold green",
    "random": "bold yellow",
}
LABELS = {
    "sop": ("in order", "swapped"),
    "nsp": ("next", "from another document"),
    "none": ("", ""),
}
OFFICIAL_SOP_LABELS = ("in order", "swapped, or from another document")


def inspect(
    shards: Path,
    /,
    *,
    config: Annotated[ExampleConfig | None, Parameter(name="*")] = None,
    split: Split = "train",
    batches: int = 400,
    show: int = 3,
    seed: int = 0,
    plot: Path | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Show what token shards hold and what the examples drawn from them look like.

    Counts documents, sentences and tokens; draws batches as pretraining would and measures lengths,
    padding, masks and labels; prints a few examples with their masks.

    Examples:
        litebert inspect shards
        litebert inspect shards --length 128 --task nsp --rules official --mask.max-predictions 20
        litebert inspect shards --split dev --show 0 --json
        litebert inspect shards --plot shards.png

    Args:
        shards: folder made by `litebert prepare`.
        config: how examples are drawn.
        split: documents to look at.
        batches: batches to draw for the statistics, at most one epoch.
        show: examples to print.
        seed: of the examples.
        plot: image file for the histograms, for example shards.png.
        json_: print JSON.
    """
    from litebert.data.batches.plots import check_plot_path, plot_inspection
    from litebert.data.batches.statistics import inspect_shards

    if plot is not None:
        check_plot_path(plot)
    inspection = inspect_shards(
        shards,
        config or ExampleConfig(),
        split=split,
        num_batches=batches,
        num_shown=show,
        seed=seed,
    )
    if plot is not None:
        plot_inspection(inspection, plot)
    if json_:
        print(json.dumps(_plain(inspection), ensure_ascii=False))
    else:
        _print(inspection)


def _plain(inspection: Inspection) -> dict[str, object]:
    from dataclasses import asdict

    from litebert.common.config import to_dict

    return {
        "folder": str(inspection.folder),
        "split": inspection.split,
        "config": to_dict(inspection.config),
        "corpus": asdict(inspection.corpus),
        "examples": asdict(inspection.examples),
        "shown": [
            {"address": example.address, "label": example.label, "text": example.text}
            for example in inspection.shown
        ],
    }


def _print(inspection: Inspection) -> None:
    from rich.columns import Columns
    from rich.console import Console

    console = Console(highlight=False)
    corpus, examples = inspection.corpus, inspection.examples
    console.print(f"[bold]{inspection.folder}[/] ({inspection.split})")
    console.print(
        f"{corpus.documents:,} documents, {corpus.sentences:,} sentences, {corpus.tokens:,} "
        f"tokens; {corpus.pieces_used:,} of {corpus.vocab_size:,} pieces occur\n"
    )
    console.print(
        Columns(
            [
                _histogram_table("sentence tokens", corpus.sentence_tokens),
                _histogram_table("document tokens", corpus.document_tokens),
            ],
            padding=(0, 4),
        )
    )
    config = inspection.config
    console.print(
        f"\n[bold]examples[/] of up to {config.length} tokens, task {config.task}, rules "
        f"{config.rules}: {examples.examples:,} in {examples.batches:,} batches"
    )
    console.print(
        Columns(
            [
                _facts_table(inspection),
                _histogram_table("example length", examples.lengths),
                _runs_table(examples.run_words),
            ],
            padding=(0, 4),
        )
    )
    for number, example in enumerate(inspection.shown, start=1):
        _print_example(console, number, example, _label_names(config))
    if inspection.shown:
        console.print(
            "\n[bold red]\\[word][/] replaced by \\[MASK]  [bold green]\\[word=][/] kept  "
            "[bold yellow]\\[word→other][/] replaced by a random piece: all are predicted"
        )


def _histogram_table(title: str, histogram: Histogram) -> Table:
    from litebert.data.batches.plots import bin_names

    total = max(1, sum(histogram.counts))
    shares = {
        name: count / total
        for name, count in zip(bin_names(histogram), histogram.counts, strict=True)
    }
    return _bars(title, shares)


def _runs_table(shares: dict[int, float]) -> Table:
    few = {str(words): share for words, share in shares.items() if words < MANY_WORDS}
    many = sum(share for words, share in shares.items() if words >= MANY_WORDS)
    return _bars("words of a masked run", few | {f"{MANY_WORDS}+": many})


def _bars(title: str, shares: dict[str, float]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 1))
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    largest = max(shares.values(), default=1) or 1
    for name, share in shares.items():
        table.add_row(name, f"{share:.1%}", "█" * round(BAR_WIDTH * share / largest))
    return table


def _facts_table(inspection: Inspection) -> Table:
    from rich.table import Table

    examples, names = inspection.examples, _label_names(inspection.config)
    table = Table(title="shares", title_justify="left", box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("mean length", f"{examples.mean_length:.1f}")
    table.add_row("full length", f"{examples.full_length_share:.1%}")
    table.add_row("padding", f"{examples.padding_share:.2%}")
    table.add_row("predicted tokens", f"{examples.masked_share:.2%}")
    for kind, share in examples.replacement_shares.items():
        table.add_row(f"  {kind}", f"{share:.1%}")
    for label, share in examples.label_shares.items():
        table.add_row(f"label {label}, {names[label]}", f"{share:.1%}")
    return table


def _print_example(
    console: Console, number: int, example: ShownExample, names: tuple[str, str]
) -> None:
    from rich.text import Text

    epoch, window, index = example.address
    label = "" if example.label is None else f", label {example.label} ({names[example.label]})"
    console.print(f"\n[bold]{number}[/] epoch {epoch}, window {window}, index {index}{label}")
    console.print(Text.assemble(*((text, STYLES[kind]) for text, kind in example.parts)))


def _label_names(config: ExampleConfig) -> tuple[str, str]:
    """What labels 0 and 1 mean; the official code pairs lone sentences with strangers."""
    if config.task == "sop" and config.rules == "official":
        return OFFICIAL_SOP_LABELS
    return LABELS[config.task]
