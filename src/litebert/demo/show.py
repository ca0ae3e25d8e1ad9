"""What the demo shows on the screen: tables and a small curve, readable in a log too."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from litebert.common.config import from_dict
from litebert.common.files import read_json
from litebert.common.progress import format_duration
from litebert.demo.figures import headlines, score_rows
from litebert.demo.folder import DemoConfig, DemoFolder
from litebert.demo.labelled_task import LabelledTask
from litebert.demo.stages import metrics
from litebert.demo.text_curve import text_curve

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_INDENT = 6


@dataclass(frozen=True)
class Screen:
    """A console with the demo's few ways of writing to it.

    Example:
        >>> Screen(Console()).fact("demo/tokenizer", "4,000 pieces")
    """

    console: Console

    def opening(self, config: DemoConfig, folder: DemoFolder) -> None:
        """Say what is coming."""
        length = f"{config.steps:,} steps" if config.steps else f"about {config.budget}"
        source = config.corpus or "the documentation that every Python carries"
        self.line(f"litebert demo: raw text to a served model, {length}, all in {config.out}/", 0)
        self.line(f"text: {source}; no network is used", 0, "dim")
        if folder.length() != config.length:
            self.line(
                f"finished stages in it were made with {folder.length()} and are kept; for another "
                "length choose another --out, or delete it", 0, "yellow",
            )  # fmt: skip

    def stage(self, number: int, total: int, title: str, note: str = "") -> None:
        """Head a stage, and say if it is not run."""
        from rich.text import Text

        head = Text.assemble((f"[{number:>2}/{total}] ", "cyan"), (title, "bold"))
        self.console.print()
        self.console.print(head, highlight=False, soft_wrap=True)
        if note:
            self.line(note, style="dim")

    def took(self, seconds: float) -> None:
        """Say how long the stage took."""
        self.line(f"done in {seconds:.1f} s", style="green")

    def fact(self, where: object, what: str) -> None:
        """Say what is where."""
        self.line(f"{where}  {what}")

    def line(self, text: str, indent: int = _INDENT, style: str = "") -> None:
        """Print a line as it is."""
        from rich.padding import Padding
        from rich.text import Text

        # On a terminal long lines wrap below their indentation; in a log they stay one line.
        if self.console.is_terminal:
            self.console.print(Padding(Text(text, style), (0, 0, 0, indent), expand=False))
        else:
            self.console.print(Text(" " * indent + text, style), soft_wrap=True)

    def table(self, table: Table) -> None:
        """Print a table below the stage's heading."""
        from rich.padding import Padding

        self.console.print(Padding(table, (0, 0, 0, _INDENT), expand=False))

    def interrupted(self, config: DemoConfig) -> None:
        """Say that nothing is lost."""
        self.console.print()
        self.line(f"stopped; the same command goes on where it was ({config.out}/)", 0, "yellow")

    def closing(self, config: DemoConfig, folder: DemoFolder, seconds: float) -> None:
        """Sum up, and name the three commands to try next."""
        from rich.text import Text

        table = _table(("", "left"), ("", "left"), ("", "left"))
        for headline in headlines(folder):
            table.add_row(
                Text(headline.name), Text(headline.value, "bold"), Text(headline.note, "dim")
            )
        total = sum(folder.seconds().values())
        self.console.print()
        self.line(
            f"Done in {format_duration(seconds)} (all stages together {format_duration(total)})",
            0, "bold green",
        )  # fmt: skip
        self.console.print(table)
        self.console.print()
        self.line("Try next", 0, "bold")
        for command in next_commands(config, folder):
            self.console.print(f"  {command}", highlight=False, soft_wrap=True, markup=False)


def next_commands(config: DemoConfig, folder: DemoFolder) -> tuple[str, str, str]:
    """The three commands to try next."""
    text = "the [MASK] is raised if a key is missing."
    if config.corpus is not None:
        samples = _samples(folder)
        text = str(samples[0]["text"]).replace('"', "'") if samples else "this is a [MASK]."
    own = "" if config.corpus is None else " --budget 30m"
    program = _program()
    return (
        f'{program} fill-mask --model {folder.model} "{text}"',
        f"{program} serve --model {folder.int8} --model {folder.model}",
        f"{program} demo --corpus {config.corpus or 'YOUR-TEXTS/'} --out my-demo{own}",
    )


def _program() -> str:
    """How to call litebert from here: `make demo` installs it into a folder off the search path."""
    if shutil.which("litebert") is not None:
        return "litebert"
    script = Path(sys.executable).parent / "litebert"
    if not script.is_file():
        return f"{sys.executable} -m litebert"
    here = Path.cwd()
    return str(script.relative_to(here) if script.is_relative_to(here) else script)


def text(folder: DemoFolder, screen: Screen) -> None:
    """Show the collected text."""
    with folder.text.open(encoding="utf-8") as stream:
        documents = sum(1 for _ in stream)
    size = folder.text.stat().st_size / 1e6
    screen.fact(
        folder.text, f"{size:.1f} MB, {documents:,} documents: language reference, docstrings"
    )


def vocabulary(folder: DemoFolder, screen: Screen) -> None:
    """Show the vocabulary, on a sentence of its own field where that is known."""
    from litebert.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(folder.tokenizer)
    example = "A dictionary maps keys to values."
    pieces = f": {' '.join(tokenizer.pieces(example))}" if folder.text.exists() else ""
    screen.fact(folder.tokenizer, f"{tokenizer.vocab_size:,} pieces{pieces}")


def shards(folder: DemoFolder, screen: Screen) -> None:
    """Show how much text there is."""
    from litebert.data.corpus.shards import ShardSet

    train, dev = ShardSet.open(folder.shards, "train"), ShardSet.open(folder.shards, "dev")
    screen.fact(
        folder.shards,
        f"{train.num_tokens:,} tokens in {train.num_documents:,} documents; dev: "
        f"{dev.num_tokens:,} tokens in {dev.num_documents:,} other documents",
    )


def pretraining(folder: DemoFolder, screen: Screen) -> None:
    """Show the curve of the dev loss beside the unigram line, and the final accuracies."""
    dev = metrics(folder.pretrain, "dev_masked_loss")
    steps = metrics(folder.pretrain, "tokens_per_s")
    if steps:
        last = steps[-1]
        screen.fact(
            folder.model,
            f"{int(_number(last['step'])):,} steps, {_number(last['tokens']) / 1e6:.1f} M tokens",
        )
    if not dev:
        screen.line("the text is too small for dev documents, so there is no dev loss")
        return
    last = dev[-1]
    unigram = _number(last["dev_unigram_loss"])
    _curve(screen, [(_number(d["step"]), _number(d["dev_masked_loss"])) for d in dev], unigram)
    table = _table(("on dev documents", "left"), ("", "right"), ("", "left"))
    table.add_row(
        "loss at [MASK]".replace("[", "\\["),
        f"{_number(last['dev_masked_loss']):.2f}",
        f"word frequencies alone {unigram:.2f}",
    )
    table.add_row(
        "masked words right",
        f"{_number(last['dev_mlm_accuracy']):.1%}",
        f"of {_number(last['dev_predictions']):,.0f}",
    )
    if last.get("dev_sop_accuracy") is not None:
        table.add_row(
            "sentence order right",
            f"{_number(last['dev_sop_accuracy']):.1%}",
            f"of {_number(last['dev_sop_pairs']):,.0f} pairs; chance is 50 %",
        )
    screen.table(table)


def _curve(screen: Screen, points: Sequence[tuple[float, float]], unigram: float) -> None:
    if len(points) < 2:
        return
    screen.line("dev loss at [MASK] in nats; broken line: word frequencies alone", style="dim")
    width = max(20, min(64, screen.console.width - _INDENT - 8))
    ascii_only = screen.console.options.ascii_only
    for row in text_curve(points, unigram, width=width, ascii_only=ascii_only):
        screen.line(row)


def filled(folder: DemoFolder, screen: Screen) -> None:
    """Show what the model puts at the masks."""
    from rich.text import Text

    samples = _samples(folder)
    if not samples:
        screen.line("the text is too small for samples")
        return
    table = _table(("text", "left"), ("the model says", "left"))
    for sample in samples:
        candidates = sample["candidates"]
        assert isinstance(candidates, list), "pairs of word and probability"
        said = ", ".join(f"{word} {share:.0%}" for word, share in candidates[:4])
        hidden = f"  (hidden: {sample['answer']})" if "answer" in sample else ""
        table.add_row(Text(str(sample["text"]) + hidden), Text(said))
    screen.table(table)


def task(folder: DemoFolder, screen: Screen) -> None:
    """Show the labels and how many sentences each has, or why there is no task."""
    from rich.text import Text

    path = folder.task / "cut.json"
    cut = from_dict(LabelledTask, read_json(path), str(path))
    if cut.reason:
        screen.line(f"none could be cut: {cut.reason}", style="yellow")
        return
    screen.fact(
        folder.task_file,
        f"{sum(cut.train):,} sentences of {cut.train_documents:,} documents to learn from, "
        f"{sum(cut.dev):,} of {cut.dev_documents:,} others to score",
    )
    table = _table(("part", "left"), ("train", "right"), ("dev", "right"))
    for label, train, dev in zip(cut.labels, cut.train, cut.dev, strict=True):
        table.add_row(Text(label), f"{train:,}", f"{dev:,}")
    screen.table(table)


def finetuning(run: Path, screen: Screen) -> None:
    """Show how a fine-tuning went."""
    result = read_json(run / "result.json")
    scores = result["scores"]
    assert isinstance(scores, dict), "fine-tuning wrote it"
    screen.fact(
        run / "model",
        f"dev accuracy {scores['accuracy']:.1%} after {result['steps']:,} steps of 32 sentences",
    )


def scores(folder: DemoFolder, screen: Screen) -> None:
    """Show the scores beside the baselines, and which parts are confused."""
    from rich.text import Text

    found = read_json(folder.scores)
    table = _table(("on dev", "left"), ("accuracy", "right"), ("macro F1", "right"))
    *baselines, ours = score_rows(folder)
    for row in baselines:
        table.add_row(*row)
    table.add_row(*(Text(cell, "bold") for cell in ours))
    screen.table(table)
    confusion = found["confusion"]
    if isinstance(confusion, dict):
        screen.console.print()
        screen.table(_confusion(confusion["labels"], confusion["matrix"]))


def export(folder: DemoFolder, screen: Screen) -> None:
    """Show size and accuracy of the int8 model."""
    found = read_json(folder.exported)
    text = (
        f"{_number(found['file_bytes']) / 1e6:.2f} MB, every shared weight stored once, "
        f"{found['num_integer_matmuls']} integer products"
    )
    dev = found["dev"]
    if isinstance(dev, dict):
        text += f"; dev accuracy {dev['before']:.1%} in float32, {dev['after']:.1%} in int8"
    screen.fact(folder.int8, text)


def answer(folder: DemoFolder, screen: Screen) -> None:
    """Show the question and the server's answer."""
    found = read_json(folder.answer)
    request, said = found["request"], found["answer"]
    assert isinstance(request, dict), "an earlier stage wrote it"
    assert isinstance(said, dict), "the server answers with JSON"
    screen.line(f"$ {found['command']}", style="dim")
    screen.line(f'POST {found["path"]}  "{request["text"]}"')
    first = said["results"][0]
    if "label" in first:
        scores = sorted(first["scores"].items(), key=lambda item: -item[1])[:3]
        screen.line("-> " + ", ".join(f"{label} {share:.0%}" for label, share in scores))
        screen.line(f"   it is from {found['from']} ({found['gold']})", style="dim")
    else:
        screen.line(f"-> {first['text']}")
    screen.line(
        f"answered over HTTP in {found['milliseconds']} ms; the server ended with status "
        f"{found['exit_status']}"
    )


def report(folder: DemoFolder, screen: Screen) -> None:
    """Show where the page is."""
    screen.fact(folder.report, "curves, scores, samples and settings in one file")


def _confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> Table:
    from rich.text import Text

    short = [label if len(label) <= 11 else f"{label[:10]}…" for label in labels]
    table = _table(("true \\ said", "left"), *((label, "right") for label in short))
    for number, row in enumerate(matrix):
        cells = [
            Text(str(count) if count else ".", "bold" if column == number else "")
            for column, count in enumerate(row)
        ]
        table.add_row(Text(short[number]), *cells)
    return table


def _table(*columns: tuple[str, str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    has_header = any(title for title, _ in columns)
    table = Table(box=box.SIMPLE_HEAD, show_header=has_header, pad_edge=False, show_edge=False)
    for title, justify in columns:
        table.add_column(Text(title), justify="right" if justify == "right" else "left")
    return table


def _samples(folder: DemoFolder) -> list[dict[str, object]]:
    samples = read_json(folder.filled)["samples"]
    assert isinstance(samples, list), "an earlier stage wrote it"
    return samples


def _number(value: object) -> float:
    assert isinstance(value, (int, float)), "a figure of a log"
    return float(value)
