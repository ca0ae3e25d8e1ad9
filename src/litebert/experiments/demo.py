"""The whole way, small: text to tokenizer to shards to a pretrained model to filled masks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from litebert.common.config import from_dict, read_toml, recipe_path
from litebert.common.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

VOCAB_SIZE = 4_000

SAMPLES = (
    "return a new [MASK] with the same elements.",
    "the [MASK] statement is used to import a module.",
    "raises an exception if the [MASK] is not found.",
)


@dataclass(frozen=True)
class DemoConfig:
    """What the demo does.

    Example:
        >>> DemoConfig(out=Path("demo"), steps=200)
    """

    out: Path = Path("demo")
    """Folder for everything the demo makes; finished stages in it are not redone."""
    corpus: Path | None = None
    """A text file or folder of your own instead of Python's documentation."""
    steps: int | None = None
    """Pretraining steps instead of a time budget."""
    budget: str = "90s"
    """Wall-clock time for pretraining."""


@dataclass(frozen=True)
class Stage:
    """One step of the way: a title, the file that proves it is finished, and the work."""

    title: str
    proof: Path
    work: Callable[[], None]
    summary: Callable[[], str]


def demo(config: DemoConfig, console: Console) -> Path:
    """Run every stage that is not finished yet and show what it made.

    Returns:
        The folder of the pretrained model.
    """
    if config.corpus is not None and not config.corpus.exists():
        raise InputError(f"corpus {config.corpus} does not exist; name a text file or folder")
    stages = _stages(config)
    for number, stage in enumerate(stages, start=1):
        title = f"[{number}/{len(stages)}] {stage.title}"
        if stage.proof.exists():
            console.print(f"{title} [dim](kept from an earlier run)[/dim]", highlight=False)
        else:
            console.print(title, style="bold", highlight=False)
            started = time.monotonic()
            stage.work()
            console.print(f"      {time.monotonic() - started:.1f} s", style="dim", highlight=False)
        console.print(f"      {stage.summary()}", highlight=False)
    model = config.out / "pretrain" / "model"
    _show_samples(model, console)
    _show_next_commands(config.out, console)
    return model


def _stages(config: DemoConfig) -> list[Stage]:
    out = config.out
    corpus = config.corpus or out / "text" / "python.txt"
    stages = [
        Stage("train a tokenizer", out / "tokenizer/spiece.model", lambda: _tokenizer(corpus, out),
              lambda: _describe_tokenizer(out / "tokenizer")),
        Stage("tokenise the text once, into shards", out / "shards/manifest.json",
              lambda: _shards(corpus, out), lambda: _describe_shards(out / "shards")),
        Stage("pretrain albert-tiny: masked n-grams and sentence order",
              out / "pretrain/model/config.json", lambda: _pretrain(config),
              lambda: _describe_model(out / "pretrain")),
    ]  # fmt: skip
    if config.corpus is None:
        collect = Stage(
            "collect the text that every Python carries",
            corpus,
            lambda: _collect(out),
            lambda: f"{corpus} ({corpus.stat().st_size / 1e6:.1f} MB of documentation)",
        )
        stages.insert(0, collect)
    return stages


def _collect(out: Path) -> None:
    from litebert.experiments.python_text import write_corpus

    write_corpus(out / "text")


def _tokenizer(corpus: Path, out: Path) -> None:
    from litebert.text.train import TokenizerTrainConfig, train_tokenizer

    # A corpus of one's own may be too small for so many pieces.
    folder = out / "tokenizer"
    train_tokenizer(
        TokenizerTrainConfig(input=(corpus,), out=folder, vocab_size=VOCAB_SIZE, shrink=True)
    )


def _shards(corpus: Path, out: Path) -> None:
    from litebert.data.config import PrepareConfig
    from litebert.data.prepare import prepare

    prepare(
        PrepareConfig(
            input=(corpus,), tokenizer=out / "tokenizer", out=out / "shards", dev_fraction=0.05
        )
    )


def _pretrain(config: DemoConfig) -> None:
    from litebert.train.config import PretrainConfig
    from litebert.train.pretrain import pretrain

    recipe = read_toml(recipe_path("pretrain", "tiny"))
    recipe.pop("steps", None)
    length = {"budget": config.budget} if config.steps is None else {"steps": config.steps}
    paths = {"data": str(config.out / "shards"), "out": str(config.out / "pretrain")}
    pretrain(from_dict(PretrainConfig, {**recipe, **paths, **length, "resume": "auto"}, "demo"))


def _describe_tokenizer(folder: Path) -> str:
    from litebert.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(folder)
    pieces = " ".join(tokenizer.pieces("A dictionary maps keys to values."))
    return f"{folder} ({tokenizer.vocab_size:,} pieces): {pieces}"


def _describe_shards(folder: Path) -> str:
    from litebert.data.shards import ShardSet

    train, dev = ShardSet.open(folder, "train"), ShardSet.open(folder, "dev")
    return (
        f"{folder}: {train.num_tokens:,} tokens in {train.num_documents:,} documents, "
        f"dev {dev.num_tokens:,} tokens"
    )


def _describe_model(run: Path) -> str:
    from litebert.common.runs import RunFolder

    lines = [record for record in RunFolder.open(run).metrics() if "dev_mlm_loss" in record]
    if not lines:
        return f"{run / 'model'}"
    last = lines[-1]
    return (
        f"{run / 'model'}: dev MLM loss {last['dev_mlm_loss']:.2f}, "
        f"accuracy {last['dev_mlm_accuracy']:.1%}, SOP accuracy {last['dev_sop_accuracy']:.1%}"
    )


def _show_samples(model: Path, console: Console) -> None:
    from rich.table import Table

    from litebert.serve.predictor import Predictor

    table = Table("text", "candidates", box=None, pad_edge=False)
    for text, filled in zip(SAMPLES, Predictor.load(model).fill_mask(SAMPLES), strict=True):
        candidates = [f"{item.token} {item.score:.0%}" for item in filled.masks[0]]
        table.add_row(text, ", ".join(candidates))
    console.print("fill-mask", style="bold")
    console.print(table, markup=False)


def _show_next_commands(out: Path, console: Console) -> None:
    console.print("Try next", style="bold")
    model = out / "pretrain" / "model"
    for command in (
        f'litebert fill-mask --model {model} "the [MASK] is raised if a key is missing."',
        f"litebert inspect {out}/shards",
        f"litebert serve --model {model}",
    ):
        console.print(f"  {command}", highlight=False, soft_wrap=True, markup=False)
