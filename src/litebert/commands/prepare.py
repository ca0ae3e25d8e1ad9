"""`litebert prepare` turns raw text into token shards; `litebert inspect` shows what they and examples look like."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from rich.columns import Columns
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from litebert.commands.flags import RECIPE, SETTINGS, AsJson
from litebert.common.config import to_dict
from litebert.common.errors import InputError
from litebert.common.files import check_plot_path
from litebert.common.statistics import small_dev_split
from litebert.data.batches.example import ExampleConfig
from litebert.data.batches.inspect import Inspection, inspect_shards, plot_inspection
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.manifest import Split
from litebert.data.corpus.prepare import PrepareReport
from litebert.data.corpus.prepare import prepare as build

BAR_WIDTH = 24
MANY_WORDS = 7
STYLES = {"plain": "", "special": "dim", "masked": "bold red", "kept": "bold green", "random": "bold yellow"}
OFFICIAL_SOP_LABELS = ("in order", "swapped, or from another document")
LABELS = {"sop": ("in order", "swapped"), "nsp": ("next", "from another document"), "both": OFFICIAL_SOP_LABELS}
"""The official code pairs lone sentences with strangers."""


def prepare(
    *, config: Annotated[PrepareConfig, SETTINGS], recipe: Annotated[Path | None, RECIPE] = None, json_: AsJson = False
) -> None:
    """Turn raw text into token shards: tokenised once, pairs and masks are drawn while training.

    Text is cut into sentences, identical documents are dropped, a share of the documents becomes
    the dev split. The same command continues an interrupted build; workers, engine and
    interruptions change no byte of the result.

    Examples:
        litebert prepare --input corpus/wiki.txt.xz --tokenizer tokenizer --out shards
        litebert prepare --input "web/*.jsonl.zst" books/ --tokenizer tokenizer --out shards
        litebert prepare --input wiki.parquet --column body --tokenizer tokenizer --out shards \\
            --dev-input squad.txt --workers 8 --strict
        RAY_ADDRESS=auto litebert prepare --input corpus/ --tokenizer tokenizer --out shards \\
            --engine ray

    Args:
        recipe: TOML file with settings; flags override it.
    """
    report = build(config)
    if not json_:
        _print_report(report)
        return
    manifest, sources, splits = report.manifest, report.manifest.sources, report.manifest.splits
    summary = {
        "out": str(report.out),
        "was_complete": report.was_complete,
        **{k: {name: getattr(s, name) for name in ("documents", "sentences", "tokens")} for k, s in splits.items()},
        "text_bytes": sources.text_bytes,
        "duplicate_documents": sources.duplicate_documents,
        "empty_documents": sources.empty_documents,
        "problems": manifest.problems,
        "vocab_size": manifest.vocab_size,
        "disk_bytes": report.disk_bytes,
        "seconds": round(report.seconds, 2),
        "mb_per_s": round(report.mb_per_s, 2),
        "workers": report.workers,
        "resumed_parts": report.resumed_parts,
        "peak_memory_bytes": report.peak_memory_bytes,
    }
    print(json.dumps(summary))


def _print_report(report: PrepareReport) -> None:
    table = Table("split", title=str(report.out), title_justify="left")
    for column in ("documents", "sentences", "tokens", "shards"):
        table.add_column(column, justify="right")
    for name, split in report.manifest.splits.items():
        numbers = (split.documents, split.sentences, split.tokens, len(split.shards))
        table.add_row(name, *(f"{number:,}" for number in numbers))
    Console().print(table)
    manifest, sources = report.manifest, report.manifest.sources
    left_out = f"{sources.duplicate_documents:,} duplicate, {sources.empty_documents:,} empty"
    print(f"text: {sources.text_bytes / 1e6:,.1f} MB, source files: {sources.files:,}, documents left out: {left_out}")
    per_byte = report.disk_bytes / max(1, sources.text_bytes)
    print(f"disk: {report.disk_bytes / 1e6:,.1f} MB, {per_byte:.2f} byte per byte of text")
    if report.was_complete:
        print("nothing to do: these shards were complete")
    else:
        memory = f"memory: at most {report.peak_memory_bytes / 2**20:,.0f} MiB"
        print(f"time: {report.seconds:,.1f} s, {report.mb_per_s:.1f} MB/s, workers: {report.workers}, {memory}")
    if report.resumed_parts:
        print(f"kept from an interrupted run: {report.resumed_parts:,} parts")
    if manifest.problems:
        counts = [f"{n:,} {kind.replace('_', ' ')}" for kind, n in manifest.problems.items()]
        print(f"problems: {', '.join(counts)}; see {report.out}/problems.jsonl")
    dev = manifest.splits["dev"]
    if not dev.documents:
        print("the dev split is empty: raise --dev-fraction or give --dev-input")
    elif small := small_dev_split(dev.documents, dev.tokens):
        print(small)


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
    json_: AsJson = False,
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
        _print_inspection(inspection)


def _print_inspection(inspection: Inspection) -> None:
    console = Console(highlight=False)
    config, corpus, examples = inspection.config, inspection.corpus, inspection.examples
    names = LABELS.get(config.task, ())
    if config.task == "sop" and config.rules == "official":
        names = OFFICIAL_SOP_LABELS
    console.print(f"[bold]{inspection.folder}[/] ({inspection.split})")
    size = f"{corpus.documents:,} documents, {corpus.sentences:,} sentences, {corpus.tokens:,} tokens"
    console.print(f"{size}; {corpus.pieces_used:,} of {corpus.vocab_size:,} pieces occur")
    console.print(f"{inspection.tokenizer}; whole words by the {inspection.word_rule} rule\n")
    bars = {"sentence tokens": corpus.sentence_tokens.shares, "document tokens": corpus.document_tokens.shares}
    console.print(Columns([_bars(title, shares) for title, shares in bars.items()], padding=(0, 4)))
    drawn = f"of up to {config.length} tokens, task {config.task}, rules {config.rules}"
    console.print(f"\n[bold]examples[/] {drawn}: {examples.examples:,} in {examples.batches:,} batches")
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
