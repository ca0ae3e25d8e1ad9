"""What the demo shows: tables and a small curve on the screen, readable in a log too, and a page."""

from __future__ import annotations

import json
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
from litebert.common.files import read_json, write_text
from litebert.common.progress import format_duration
from litebert.common.rows import count_rows
from litebert.common.runs import RESULT_FILE, RunFolder
from litebert.common.statistics import interval_in_percent
from litebert.data.corpus.shards import ShardSet
from litebert.demo.folder import DemoFolder
from litebert.demo.task import CutTask
from litebert.report.finetuning import NamedLog, confusion_table, finetuning_charts
from litebert.report.log import Record, lines_with, mapping, number, points
from litebert.report.page import page, settings, table, tiles
from litebert.report.pretraining import pretraining_charts, sample_rows, samples_table
from litebert.text.tokenizer import Tokenizer

_INDENT = 6
_LABELLERS = {
    "baseline": "always the most frequent part",
    "words": "bag of words, no model",
    "untrained": "fine-tuned from random weights",
    "pretrained": "fine-tuned from the pretrained model",
}


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
        self.console.print(Text.assemble((head, "cyan"), (title, "bold")), highlight=False, soft_wrap=True)
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

    def closing(self, folder: DemoFolder, seconds: float) -> None:
        """Sum up, and name the three commands to try next."""
        total = format_duration(sum(folder.seconds().values()))
        lines = [*headlines(folder), ("report", "", str(folder.report))]
        rows = [(name, Text(value, "bold"), Text(note, "dim")) for name, value, note in lines]
        self.console.print()
        self.line(f"Done in {format_duration(seconds)} (all stages together {total})", 0, "bold green")
        self.table(("", "", ""), rows, indent=0)
        self.console.print()
        self.line("Try next", 0, "bold")
        for command in _next_commands(folder):
            self.console.print(f"  {command}", highlight=False, soft_wrap=True, markup=False)


def _next_commands(folder: DemoFolder) -> tuple[str, str, str]:
    corpus, text, own = folder.config.corpus, "the [MASK] is raised if a key is missing.", ""
    if corpus is not None:
        text, own = masked_text(folder).replace('"', "'"), " --budget 30m"
    program = "litebert"
    if not shutil.which(program):  # `make demo` installs it into a folder off the search path
        beside = shutil.which(program, path=Path(sys.executable).parent)
        program = beside or f"{sys.executable} -m litebert"
    return (
        f'{program} fill-mask --model {folder.model} "{text}"',
        f"{program} serve --model {folder.int8} --model {folder.model}",
        f"{program} demo --corpus {corpus or 'YOUR-TEXTS/'} --out my-demo{own}",
    )


def text(folder: DemoFolder, screen: Screen) -> None:
    """Show the collected text."""
    size = f"{folder.text.stat().st_size / 1e6:.1f} MB, {count_rows(folder.text):,} documents"
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
    points: Sequence[tuple[float, float]], reference: float, width: int, height: int = 8, *, ascii_only: bool = False
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
    lines += [f"     {corner}{floor * width}", f"      {left}{right:>{max(1, width - len(left))}}"]
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
    score = f"dev accuracy {number(result, 'scores', 'accuracy'):.1%}"
    screen.line(f"{run / 'model'}  {score} after {result['steps']:,} steps of 32 sentences")


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
    first = said["results"][0]
    screen.line(f"$ {found['command']}", style="dim")
    screen.line(f'POST {found["path"]}  "{mapping(found, "request")["text"]}"')
    if "label" in first:
        best = sorted(first["scores"].items(), key=lambda item: -item[1])[:3]
        screen.line("-> " + ", ".join(f"{label} {share:.0%}" for label, share in best))
        screen.line(f"   it is from {found['from']} ({found['gold']})", style="dim")
    else:
        screen.line(f"-> {first['text']}")
    ended = f"the server ended with status {found['exit_status']}"
    screen.line(f"answered over HTTP in {found['milliseconds']} ms; {ended}")


def written_page(folder: DemoFolder, screen: Screen) -> None:
    """Show where the page is."""
    screen.line(f"{folder.report}  curves, scores, samples and settings in one file")


def headlines(folder: DemoFolder) -> list[tuple[str, str, str]]:
    """Return the demo's figures in the order of its stages: name, figure, what to compare it to."""
    found = pretraining_headlines(folder)
    if folder.scores.is_file():
        scores = read_json(folder.scores)
        said = {key: number(scores, key, "accuracy") for key in _LABELLERS if key in scores}
        sure = interval_in_percent(said["pretrained"], number(scores, "examples"))
        note = f"{sure}; always the same {said['baseline']:.1%}, from random weights {said['untrained']:.1%}"
        note += f", bag of words {said['words']:.1%}" if "words" in said else ""
        found.append(("part of the text right", f"{said['pretrained']:.1%}", note))
    exported, answer = read_json(folder.exported), read_json(folder.answer)
    note = f"{number(exported, 'dev', 'after'):.1%} right" if exported["dev"] else "fills masks"
    found.append(("int8 model", f"{number(exported, 'file_bytes') / 1e6:.2f} MB", note))
    found.append(("answer over HTTP", f"{answer['milliseconds']} ms", str(answer["path"])))
    return found


def pretraining_headlines(folder: DemoFolder) -> list[tuple[str, str, str]]:
    """Return the last dev scores of pretraining; none where there are no dev documents."""
    dev = lines_with(RunFolder.open(folder.pretrain).metrics(), "dev_masked_loss")
    if not dev:
        return []

    def last(key: str) -> float:
        return number(dev[-1], f"dev_{key}")

    words = f"of {last('predictions'):,.0f} in dev documents"
    found = [
        ("loss at [MASK]", f"{last('masked_loss'):.2f}", f"word frequencies alone {last('unigram_loss'):.2f}"),
        ("masked words right", f"{last('mlm_accuracy'):.1%}", words),
    ]
    if pairs := last("sop_pairs"):
        sure = f"{interval_in_percent(last('sop_accuracy'), pairs)}, of {pairs:,.0f} pairs"
        note = f"{sure}; comparing their lengths alone {last('sop_length_rule'):.1%}"
        found.append(("sentence order right", f"{last('sop_accuracy'):.1%}", note))
    return found


def labeller_rows(folder: DemoFolder) -> list[tuple[str, str, str]]:
    """Return name, accuracy with its interval, and macro F1 of each; the fine-tuned model last."""
    found = read_json(folder.scores)
    rows = []
    for key, name in _LABELLERS.items():
        if key in found:
            right, f1 = number(found, key, "accuracy"), number(found, key, "f1_macro")
            sure = interval_in_percent(right, number(found, "examples"))
            rows.append((name, f"{right:.1%} ({sure})", f"{f1:.1%}"))
    return rows


def read_filled(folder: DemoFolder) -> list[Record]:
    """Return the masked texts with the words that the model put there."""
    samples = read_json(folder.filled)["samples"]
    assert isinstance(samples, list), "an earlier stage wrote it"
    return samples


def masked_text(folder: DemoFolder) -> str:
    """Return a text with ``[MASK]`` to ask the model about."""
    samples = read_filled(folder)
    return str(samples[0]["text"]) if samples else "this is a [MASK]."


def write_demo_report(folder: DemoFolder) -> None:
    """Write ``report.html``: the way from text to answer with its curves, scores and samples."""
    seconds, run, found = folder.seconds(), RunFolder.open(folder.pretrain), read_json(folder.answer)
    times = [(name, f"{value:.1f}") for name, value in seconds.items()]
    asked = [
        ("server", str(found["command"])),
        ("request", f"POST {found['path']} {json.dumps(found['request'], ensure_ascii=False)}"),
        ("answer", json.dumps(found["answer"], ensure_ascii=False)),
        ("time", f"{found['milliseconds']} ms over HTTP"),
    ]
    parts = [
        tiles([(value, f"{name}; {note}") for name, value, note in headlines(folder)]),
        "<h2>Pretraining</h2>",
        pretraining_charts(list(run.metrics())),
        samples_table(read_filled(folder)),
        _labelled_task(folder),
        table(("", ""), asked, title="One answered request"),
        table(("stage", "seconds"), times, title="Stages", numeric=(1,), narrow=True),
        settings(run.manifest()),
    ]
    subtitle = f"raw text to a served model in {sum(seconds.values()):.0f} s, in {folder.root}"
    write_text(folder.report, page("litebert demo", subtitle, parts))


def _labelled_task(folder: DemoFolder) -> str:
    if not folder.scores.is_file():
        return "<h2>Labelled task</h2><p>None could be cut from this text.</p>"
    scores = read_json(folder.scores)
    runs = {folder.finetune: "from the pretrained model", folder.untrained: "from random weights"}
    headings = (f"on {scores['examples']} dev sentences", "accuracy", "macro F1")
    return (
        "<h2>Labelled task: which part does a sentence come from?</h2>"
        + finetuning_charts([NamedLog.read(run, name) for run, name in runs.items()], scores, "accuracy")
        + table(headings, labeller_rows(folder), numeric=(1, 2), narrow=True)
        + confusion_table(scores)
    )
