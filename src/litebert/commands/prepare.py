"""`litebert prepare`: turn raw text into token shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.table import Table

from litebert.commands.flags import RECIPE, SETTINGS
from litebert.common.statistics import small_dev_split
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.prepare import PrepareReport
from litebert.data.corpus.prepare import prepare as build


def prepare(
    *, config: Annotated[PrepareConfig, SETTINGS], recipe: Annotated[Path | None, RECIPE] = None, json_: bool = False
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
        json_: print the summary as JSON.
    """
    report = build(config)
    if json_:
        print(json.dumps(_summary(report)))
    else:
        _print_table(report)


def _summary(report: PrepareReport) -> dict[str, object]:
    """Return the report as plain values."""
    manifest, sources = report.manifest, report.manifest.sources
    return {
        "out": str(report.out),
        "was_complete": report.was_complete,
        **{
            name: {"documents": s.documents, "sentences": s.sentences, "tokens": s.tokens}
            for name, s in manifest.splits.items()
        },
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


def _print_table(report: PrepareReport) -> None:
    table = Table(title=str(report.out), title_justify="left")
    for column in ("split", "documents", "sentences", "tokens", "shards"):
        table.add_column(column, justify="left" if column == "split" else "right")
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
        speed = f"{report.mb_per_s:.1f} MB/s, workers: {report.workers}"
        memory = f"{report.peak_memory_bytes / 2**20:,.0f} MiB"
        print(f"time: {report.seconds:,.1f} s, {speed}, memory: at most {memory}")
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
