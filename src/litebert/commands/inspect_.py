"""`litebert inspect`: what token shards hold and what examples drawn from them look like."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from rich.columns import Columns
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from litebert.commands.flags import SETTINGS
from litebert.common.config import to_dict
from litebert.common.errors import InputError
from litebert.common.files import check_plot_path
from litebert.data.batches.example import ExampleConfig
from litebert.data.batches.inspect import Inspection, inspect_shards, plot_inspection
from litebert.data.corpus.manifest import Split

BAR_WIDTH = 24
MANY_WORDS = 7
STYLES = {"plain": "", "special": "dim", "masked": "bold red", "kept": "bold green", "random": "bold yellow"}
OFFICIAL_SOP_LABELS = ("in order", "swapped, or from another document")
LABELS = {"sop": ("in order", "swapped"), "nsp": ("next", "from another document"), "both": OFFICIAL_SOP_LABELS}
"""The official code pairs lone sentences with strangers."""


def inspect(
    shards: Path,
    /,
    *,
    config: Annotated[ExampleConfig | None, SETTINGS] = None,
    split: Split = "train",
    batches: int = 400,
    show: int = 3,
    seed: int = 0,
    plot: Path | None = None,
    json_: bool = False,
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
    if plot is not None:
        check_plot_path(plot)
        if not plot.absolute().parent.is_dir():
            raise InputError(f"the folder of {plot} does not exist; make it first")
    config = config or ExampleConfig()
    inspection = inspect_shards(shards, config, split=split, num_batches=batches, num_shown=show, seed=seed)
    if plot is not None:
        plot_inspection(inspection, plot)
    if json_:
        keys = ("address", "label", "text", "words")
        shown = [{key: getattr(example, key) for key in keys} for example in inspection.shown]
        print(json.dumps(to_dict(inspection) | {"shown": shown}, ensure_ascii=False))
    else:
        _print(inspection)


def _print(inspection: Inspection) -> None:
    console = Console(highlight=False)
    config, corpus, examples = inspection.config, inspection.corpus, inspection.examples
    names = LABELS.get(config.task, ())
    if config.task == "sop" and config.rules == "official":
        names = OFFICIAL_SOP_LABELS
    console.print(f"[bold]{inspection.folder}[/] ({inspection.split})")
    console.print(
        f"{corpus.documents:,} documents, {corpus.sentences:,} sentences, {corpus.tokens:,} "
        f"tokens; {corpus.pieces_used:,} of {corpus.vocab_size:,} pieces occur"
    )
    console.print(f"{inspection.tokenizer}; whole words by the {inspection.word_rule} rule\n")
    sentences, documents = corpus.sentence_tokens.shares, corpus.document_tokens.shares
    tables = [_bars("sentence tokens", sentences), _bars("document tokens", documents)]
    console.print(Columns(tables, padding=(0, 4)))
    console.print(
        f"\n[bold]examples[/] of up to {config.length} tokens, task {config.task}, rules "
        f"{config.rules}: {examples.examples:,} in {examples.batches:,} batches"
    )
    facts = {
        "mean length": f"{examples.mean_length:.1f}",
        "full length": f"{examples.full_length_share:.1%}",
        "padding": f"{examples.padding_share:.2%}",
        "predicted tokens": f"{examples.masked_share:.2%}",
        **{f"  {kind}": f"{share:.1%}" for kind, share in examples.replacement_shares.items()},
        **{f"label {k}, {names[k]}": f"{share:.1%}" for k, share in examples.label_shares.items()},
    }
    runs = {str(words): share for words, share in examples.run_words.items() if words < MANY_WORDS}
    many = sum(share for words, share in examples.run_words.items() if words >= MANY_WORDS)
    tables = [
        _table("shares", facts.items(), "left", "right"),
        _bars("example length", examples.lengths.shares),
        _bars("words of a masked run", runs | {f"{MANY_WORDS}+": many}),
    ]
    console.print(Columns(tables, padding=(0, 4)))
    for number, example in enumerate(inspection.shown, start=1):
        epoch, buffer, index = example.address
        label = "" if example.label is None else f", label {example.label} ({names[example.label]})"
        console.print(f"\n[bold]{number}[/] epoch {epoch}, buffer {buffer}, index {index}{label}")
        console.print(Text.assemble(*((text, STYLES[kind]) for text, kind in example.spans)))
        console.print(Text("words: " + " | ".join(example.words), "dim"))
    if inspection.shown:
        console.print(
            "\n[bold red]\\[word][/] replaced by \\[MASK]  [bold green]\\[word=][/] kept  "
            "[bold yellow]\\[word→other][/] replaced by a random piece: all are predicted"
        )


def _bars(title: str, shares: dict[str, float]) -> Table:
    scale = BAR_WIDTH / (max(shares.values(), default=1) or 1)
    rows = [(name, f"{share:.1%}", "█" * round(scale * share)) for name, share in shares.items()]
    return _table(title, rows, "right", "right", "left")


def _table(title: str, rows: Iterable[tuple[str, ...]], *columns: JustifyMethod) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    for justify in columns:
        table.add_column(justify=justify)
    for row in rows:
        table.add_row(*row)
    return table
