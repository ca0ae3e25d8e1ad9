"""The demo's folder: where each stage puts its work, what made it, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import ConfigError, InputError
from litebert.common.files import read_json, write_json

_STATE_FILE = "demo.json"


@dataclass(frozen=True)
class DemoConfig:
    """What the demo does.

    Example:
        >>> DemoConfig(out=Path("demo"), budget="2m")
    """

    out: Path = Path("demo")
    """folder for everything the demo makes; finished stages in it are not redone"""
    corpus: Path | None = None
    """a text file or folder of your own instead of Python's documentation"""
    budget: str = "5m"
    """wall-clock time of the whole; training gets most of it, and below a minute the rest of the
    work takes longer than that"""
    steps: int | None = None
    """steps of pretraining, and at most as many of fine-tuning, in place of the budget"""

    @property
    def length(self) -> str:
        """How long it trains, as the flag that says so."""
        return f"--budget {self.budget}" if self.steps is None else f"--steps {self.steps}"

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"--steps is {self.steps}: use 1 or more, or leave it out")
        if self.corpus is not None and not self.corpus.exists():
            raise InputError(f"corpus {self.corpus} does not exist; name a text file or folder")


class DemoFolder:
    """Paths of the stages' work, and ``demo.json`` with the corpus and the times.

    Example:
        >>> folder = DemoFolder.open(DemoConfig(out=Path("demo")))
        >>> folder.model
        PosixPath('demo/pretrain/model')
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.text = root / "text" / "python.jsonl"
        self.tokenizer = root / "tokenizer"
        self.shards = root / "shards"
        self.pretrain = root / "pretrain"
        self.model = root / "pretrain" / "model"
        self.filled = root / "fill_mask.json"
        self.task = root / "task"
        self.task_file = root / "task" / "task.toml"
        self.finetune = root / "finetune"
        self.untrained = root / "finetune-untrained"
        self.scores = root / "scores.json"
        self.int8 = root / "int8"
        self.exported = root / "export.json"
        self.answer = root / "answer.json"
        self.report = root / "report.html"

    @classmethod
    def open(cls, config: DemoConfig) -> DemoFolder:
        """Make the folder, or find that of an earlier run on the same text."""
        root, state_path = config.out, config.out / _STATE_FILE
        corpus = None if config.corpus is None else str(config.corpus.resolve())
        if state_path.is_file():
            before = read_json(state_path).get("corpus")
            if before != corpus:
                raise ConfigError(
                    f"{root} holds a demo on {before or 'the documentation of Python'}; choose "
                    "another --out, or delete it"
                )
        elif root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise ConfigError(f"{root} exists and holds no demo; choose another --out")
        else:
            write_json(state_path, {"corpus": corpus, "length": config.length, "seconds": {}})
        return cls(root)

    def length(self) -> str:
        """Return how long the first run in this folder was told to train."""
        return str(read_json(self.root / _STATE_FILE).get("length"))

    def seconds(self) -> dict[str, float]:
        """Return how long each finished stage took."""
        found = read_json(self.root / _STATE_FILE).get("seconds")
        return {str(k): float(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def record(self, stage: str, seconds: float) -> None:
        """Remember how long a stage took."""
        path = self.root / _STATE_FILE
        times = {**self.seconds(), stage: round(seconds, 2)}
        write_json(path, {**read_json(path), "seconds": times})
