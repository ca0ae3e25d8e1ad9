"""The demo's folder: where each stage puts its work, what made it, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import ConfigError, InputError
from litebert.common.files import read_json, write_json
from litebert.common.ownership import owned_folder
from litebert.train.pretraining.config import parse_duration


@dataclass(frozen=True)
class DemoConfig:
    """What the demo does."""

    out: Path = Path("demo")
    """folder for everything the demo makes; finished stages in it are not redone"""
    corpus: Path | None = None
    """a text file or folder of your own instead of Python's documentation"""
    budget: str = "5m"
    """wall-clock time of the whole; training gets most of it, and below a minute the rest of the \
work takes longer than that"""
    steps: int | None = None
    """steps of pretraining, and at most as many of fine-tuning, in place of the budget"""

    def __post_init__(self) -> None:
        parse_duration(self.budget)  # a wrong one is refused before anything is made
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"--steps is {self.steps}: use 1 or more, or leave it out")
        if self.corpus is not None and not self.corpus.exists():
            raise InputError(f"corpus {self.corpus} does not exist; name a text file or folder")

    @property
    def length(self) -> str:
        """How long it trains, as the flag that says so."""
        return f"--budget {self.budget}" if self.steps is None else f"--steps {self.steps}"

    @property
    def budget_s(self) -> float:
        """The whole budget in seconds."""
        return parse_duration(self.budget)


class DemoFolder:
    """Paths of the stages' work, and ``demo.json`` with the corpus, the length and the times."""

    def __init__(self, config: DemoConfig) -> None:
        self.config = config
        self.root = root = config.out
        self.state = root / "demo.json"
        self.text = root / "text" / "python.jsonl"
        self.corpus = config.corpus or self.text
        self.tokenizer = root / "tokenizer"
        self.shards = root / "shards"
        self.pretrain = root / "pretrain"
        self.model = root / "pretrain" / "model"
        self.filled = root / "fill_mask.json"
        self.task = root / "task"
        self.task_file = root / "task" / "task.toml"  # there if a labelled task could be cut
        self.finetune = root / "finetune"
        self.untrained = root / "finetune-untrained"
        self.scores = root / "scores.json"
        self.int8 = root / "int8"
        self.exported = root / "export.json"
        self.answer = root / "answer.json"
        self.report = root / "report.html"

    @classmethod
    @contextmanager
    def open(cls, config: DemoConfig) -> Iterator[DemoFolder]:
        """Own the folder, which is new or that of an earlier run on the same text."""
        with owned_folder(config.out, _is_demo, [("--corpus", config.corpus)]):
            folder = cls(config)
            corpus = config.corpus and str(config.corpus.resolve())
            if not folder.state.is_file():
                write_json(folder.state, {"corpus": corpus, "length": config.length, "seconds": {}})
            if (before := read_json(folder.state).get("corpus")) != corpus:
                text = before or "the documentation of Python"
                raise ConfigError(f"{config.out} holds a demo on {text}; choose another --out, or delete it")
            yield folder

    def seconds(self) -> dict[str, float]:
        """Return how long each finished stage took."""
        found = read_json(self.state).get("seconds")
        return {str(k): float(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def record(self, stage: str, seconds: float) -> None:
        """Remember how long a stage took."""
        times = {**self.seconds(), stage: round(seconds, 2)}
        write_json(self.state, {**read_json(self.state), "seconds": times})


def _is_demo(folder: Path) -> bool:
    path = folder / "demo.json"
    return path.is_file() and {"corpus", "length", "seconds"} <= read_json(path).keys()
