"""What the demo shows on the screen: tables and a small curve, readable in a log too."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from litebert.common.config import from_dict
from litebert.common.files import read_json
from litebert.common.progress import format_duration
from litebert.common.rows import count_rows
from litebert.common.runs import RESULT_FILE, RunFolder
from litebert.data.corpus.shards import ShardSet
from litebert.demo.folder import DemoFolder
from litebert.demo.report import headlines, labeller_rows, pretraining_headlines, read_filled
from litebert.demo.task import CutTask
from litebert.report.log import lines_with, mapping, number, points
from litebert.report.pretraining import sample_rows
from litebert.text.tokenizer import Tokenizer

_INDENT = 6


@dataclass(frozen=True)
class Screen:
    """A console with the demo's few ways of writing to it."""

    console: Console

    def opening(self, folder: DemoFolder) -> None:
        """Say what is coming."""
        config = folder.config
        length = f"{config.steps:,} steps" if config.steps else f"about {config.budget}"
        source = config.corpus or "the documentation that every Python carries"
        self.line(f"litebert demo: raw text to a served model, {length}, all in {config.out}/", 0)
        self.line(f"text: {source}; no network is used", 0, "dim")
        if (before := read_json(folder.state)["length"]) != config.length:
            kept = f"finished stages in it were made with {before} and are kept"
            self.line(f"{kept}; for another length choose another --out, or delete it", 0, "yellow")

    def stage(self, head: str, title: str, note: str = "") -> None:
        """Head a stage, and say if it is not run."""
        self.console.print()
        text = Text.assemble((head, "cyan"), (title, "bold"))
        self.console.print(text, highlight=False, soft_wrap=True)
        if note:
            self.line(note, style="dim")

    def line(self, text: str, indent: int = _INDENT, style: str = "") -> None:
        """Print a line as it is."""
        # On a terminal long lines wrap below their indentation; in a log they stay one line.
        if self.console.is_terminal:
            self.console.print(Padding(Text(text, style), (0, 0, 0, indent), expand=False))
        else:
            self.console.print(Text(" " * indent + text, style), soft_wrap=True)

    def table(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[str | Text]],
        *,
        right: Collection[int] = (),
        indent: int = _INDENT,
    ) -> None:
        """Print a table below the stage's heading; ``right`` are the columns of figures."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.show_header = any(headings)
        for place, heading in enumerate(headings):
            table.add_column(Text(heading), justify="right" if place in right else "left")
        for row in rows:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        self.console.print(Padding(table, (0, 0, 0, indent), expand=False))

    def interrupted(self, folder: DemoFolder) -> None:
        """Say that nothing is lost."""
        self.console.print()
        self.line(f"stopped; the same command goes on where it was ({folder.root}/)", 0, "yellow")

    def closing(self, folder: DemoFolder, seconds: float) -> None:
        """Sum up, and name the three commands to try next."""
        total = format_duration(sum(folder.seconds().values()))
        took = f"Done in {format_duration(seconds)} (all stages together {total})"
        lines = [*headlines(folder), ("report", "", str(folder.report))]
        rows = [(name, Text(value, "bold"), Text(note, "dim")) for name, value, note in lines]
        self.console.print()
        self.line(took, 0, "bold green")
        self.table(("", "", ""), rows, indent=0)
        self.console.print()
        self.line("Try next", 0, "bold")
        for command in _next_commands(folder):
            self.console.print(f"  {command}", highlight=False, soft_wrap=True, markup=False)


def _next_commands(folder: DemoFolder) -> tuple[str, str, str]:
    corpus, program = folder.config.corpus, _program()
    text = "the [MASK] is raised if a key is missing."
    if corpus is not None:
        samples = read_filled(folder)
        text = str(samples[0]["text"]).replace('"', "'") if samples else "this is a [MASK]."
    own = "" if corpus is None else " --budget 30m"
    return (
        f'{program} fill-mask --model {folder.model} "{text}"',
        f"{program} serve --model {folder.int8} --model {folder.model}",
        f"{program} demo --corpus {corpus or 'YOUR-TEXTS/'} --out my-demo{own}",
    )


def _program() -> str:
    """How to call litebert from here: `make demo` installs it into a folder off the search path."""
    if shutil.which("litebert"):
        return "litebert"
    beside = shutil.which("litebert", path=Path(sys.executable).parent)
    return beside or f"{sys.executable} -m litebert"


def text(folder: DemoFolder, screen: Screen) -> None:
    """Show the collected text."""
    documents = count_rows(folder.text)
    size = f"{folder.text.stat().st_size / 1e6:.1f} MB, {documents:,} documents"
    screen.line(f"{folder.text}  {size}: language reference, docstrings")


def vocabulary(folder: DemoFolder, screen: Screen) -> None:
    """Show the vocabulary, on a sentence of its own field where that is known."""
    tokenizer = Tokenizer.load(folder.tokenizer)
    example = " ".join(tokenizer.pieces("A dictionary maps keys to values."))
    pieces = f": {example}" if folder.config.corpus is None else ""
    screen.line(f"{folder.tokenizer}  {tokenizer.vocab_size:,} pieces{pieces}")


def shards(folder: DemoFolder, screen: Screen) -> None:
    """Show how much text there is."""
    train, dev = ShardSet.open(folder.shards, "train"), ShardSet.open(folder.shards, "dev")
    size = f"{train.num_tokens:,} tokens in {train.num_documents:,} documents"
    beside = f"dev: {dev.num_tokens:,} tokens in {dev.num_documents:,} other documents"
    screen.line(f"{folder.shards}  {size}; {beside}")


def pretraining(folder: DemoFolder, screen: Screen) -> None:
    """Show the curve of the dev loss beside the unigram line, and the final accuracies."""
    log = list(RunFolder.open(folder.pretrain).metrics())
    if steps := lines_with(log, "tokens_per_s"):
        count, tokens = (number(steps[-1], key) for key in ("step", "tokens"))
        screen.line(f"{folder.model}  {count:,.0f} steps, {tokens / 1e6:.1f} M tokens")
    rows = pretraining_headlines(folder)
    if not rows:
        screen.line("the text is too small for dev documents, so there is no dev loss")
        return
    curve = points(log, "dev_masked_loss")
    if len(curve) > 1:
        screen.line("dev loss at [MASK] in nats; broken line: word frequencies alone", style="dim")
        width = max(20, min(64, screen.console.width - _INDENT - 8))
        unigram = points(log, "dev_unigram_loss")[-1][1]
        for row in text_curve(curve, unigram, width, ascii_only=screen.console.options.ascii_only):
            screen.line(row)
    screen.table(("on dev documents", "", ""), rows, right=(1,))


def text_curve(
    points: Sequence[tuple[float, float]],
    reference: float,
    width: int = 60,
    height: int = 8,
    *,
    ascii_only: bool = False,
) -> list[str]:
    """Draw points (ascending x) and a level, as a broken line, in lines of text."""
    mark, dash, tick, side, corner, floor = "*-||+-" if ascii_only else "•┄┤│└─"
    xs, ys = zip(*points, strict=True)
    low, high = min(*ys, reference), max(*ys, reference)

    def row_of(value: float) -> int:
        return min(height - 1, int((high - value) / ((high - low) or 1.0) * height))

    rows = [[" "] * width for _ in range(height)]
    rows[row_of(reference)] = [dash] * width
    for column, y in enumerate(np.interp(np.linspace(xs[0], xs[-1], width), xs, ys)):
        rows[row_of(float(y))][column] = mark
    labels = {0: f"{high:.2f}", height - 1: f"{low:.2f}"}
    lines = [
        f"{labels.get(number, ''):>4} {tick if number in labels else side}{''.join(row)}"
        for number, row in enumerate(rows)
    ]
    left, right = f"{xs[0]:,.0f}", f"{xs[-1]:,.0f}"
    lines += [f"     {corner}{floor * width}"]
    lines += [f"      {left}{right:>{max(1, width - len(left))}}"]
    return [line.rstrip() for line in lines]


def filled(folder: DemoFolder, screen: Screen) -> None:
    """Show what the model puts at the masks."""
    rows = [
        (f"{sentence}  (hidden: {hidden})" if hidden else sentence, said)
        for sentence, hidden, said in sample_rows(read_filled(folder), most=4)
    ]
    if rows:
        screen.table(("text", "the model says"), rows)
    else:
        screen.line("the text is too small for samples")


def task(folder: DemoFolder, screen: Screen) -> None:
    """Show the labels and how many sentences each has, or why there is no task."""
    path = folder.task / "cut.json"
    cut = from_dict(CutTask, read_json(path), str(path))
    if cut.reason:
        screen.line(f"none could be cut: {cut.reason}", style="yellow")
        return
    size = f"{sum(cut.train):,} sentences of {cut.train_documents:,} documents to learn from"
    beside = f"{sum(cut.dev):,} of {cut.dev_documents:,} others to score"
    screen.line(f"{folder.task_file}  {size}, {beside}")
    counts = zip(cut.labels, cut.train, cut.dev, strict=True)
    rows = [(label, f"{train:,}", f"{dev:,}") for label, train, dev in counts]
    screen.table(("part", "train", "dev"), rows, right=(1, 2))


def finetuning(folder: DemoFolder, screen: Screen, run: Path) -> None:
    """Show how a fine-tuning went."""
    result = read_json(run / RESULT_FILE)
    accuracy = number(result, "scores", "accuracy")
    steps = f"{result['steps']:,} steps of 32 sentences"
    screen.line(f"{run / 'model'}  dev accuracy {accuracy:.1%} after {steps}")


def scores(folder: DemoFolder, screen: Screen) -> None:
    """Show the scores beside the baselines, and which parts are confused."""
    *baselines, ours = labeller_rows(folder)
    bold = tuple(Text(cell, "bold") for cell in ours)
    screen.table(("on dev", "accuracy", "macro F1"), [*baselines, bold], right=(1, 2))
    confusion = read_json(folder.scores)["confusion"]
    assert isinstance(confusion, dict), "a single label has one"
    short = [label if len(label) <= 11 else f"{label[:10]}…" for label in confusion["labels"]]
    rows = [
        [name, *(Text(str(n or "."), "bold" if i == at else "") for i, n in enumerate(counts))]
        for at, (name, counts) in enumerate(zip(short, confusion["matrix"], strict=True))
    ]
    screen.console.print()
    screen.table(("true \\ said", *short), rows, right=range(1, len(short) + 1))


def export(folder: DemoFolder, screen: Screen) -> None:
    """Show size and accuracy of the int8 model."""
    found = read_json(folder.exported)
    text = f"{number(found, 'file_bytes') / 1e6:.2f} MB, every shared weight stored once, "
    text += f"{found['num_integer_matmuls']} integer products"
    dev = found["dev"]
    if isinstance(dev, dict):
        text += f"; dev accuracy {dev['before']:.1%} in float32, {dev['after']:.1%} in int8"
    screen.line(f"{folder.int8}  {text}")


def answer(folder: DemoFolder, screen: Screen) -> None:
    """Show the question and the server's answer."""
    found = read_json(folder.answer)
    said = found["answer"]
    assert isinstance(said, dict), "the server answers with JSON"
    screen.line(f"$ {found['command']}", style="dim")
    screen.line(f'POST {found["path"]}  "{mapping(found, "request")["text"]}"')
    first = said["results"][0]
    if "label" in first:
        best = sorted(first["scores"].items(), key=lambda item: -item[1])[:3]
        screen.line("-> " + ", ".join(f"{label} {share:.0%}" for label, share in best))
        screen.line(f"   it is from {found['from']} ({found['gold']})", style="dim")
    else:
        screen.line(f"-> {first['text']}")
    took = f"answered over HTTP in {found['milliseconds']} ms"
    screen.line(f"{took}; the server ended with status {found['exit_status']}")


def written_page(folder: DemoFolder, screen: Screen) -> None:
    """Show where the page is."""
    screen.line(f"{folder.report}  curves, scores, samples and settings in one file")
