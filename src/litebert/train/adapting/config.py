"""Settings of adapting; how it trains stands in a recipe of pretraining."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from litebert.bundled import BUNDLED
from litebert.common.config import check_range, from_dict, read_toml, recipe_path
from litebert.common.errors import ConfigError
from litebert.predict.backend import Threads
from litebert.train.pretraining.config import PretrainConfig


@dataclass(frozen=True)
class AdaptConfig:
    """Everything that decides an adaptation."""

    input: tuple[Path, ...]
    """files, folders or quoted globs of your text, as for `litebert prepare`"""
    out: Path
    """folder to write: tokenizer, shards, start, pretraining, model"""
    model: str = BUNDLED
    """model folder, run folder or hub name to start from"""
    vocab_size: int | None = None
    """pieces of the new vocabulary; default: as many as the old one has, fewer for little text"""
    keep_vocabulary: bool = False
    """go on with the old vocabulary: continued pretraining"""
    add_pieces: int | None = None
    """keep the old vocabulary and add this many pieces of the text to it"""
    tokenizer: Path | None = None
    """vocabulary that `litebert tokenizer train` made, with whatever settings it takes"""
    language: str = ""
    """ISO 639 code of the text: rules for sentences, and whether a new vocabulary keeps accents; \
default: sentences as of the tokenizer's language, else English; accents as in the old vocabulary"""
    column: str = "text"
    """name of the text in JSON lines and Parquet"""
    dev_input: tuple[Path, ...] = ()
    """held-out text for all measurements instead of a share of the input"""
    dev_fraction: float | None = None
    """share of the documents that is held out; 0.02, or 0 with --dev-input"""
    steps: int | None = None
    """length of the training in steps"""
    tokens: int | None = None
    """length of the training in tokens"""
    budget: str | None = None
    """length of the training in wall-clock time, such as 30m; default: as the recipe says"""
    freeze_share: float = 0.1
    """share of the training in which word table, projection and masked-word head learn alone; \
with --keep-vocabulary all learn from the beginning"""
    recipe: str = "adapt"
    """recipe of pretraining, a name or a TOML file; its model and initial weights are not used"""
    seed: int = 0
    """all randomness comes from it"""
    threads: Threads = "auto"
    """processor threads"""
    resume: Literal["no", "auto"] = "no"
    """auto: go on with what the folder holds, whichever stage was interrupted"""

    def __post_init__(self) -> None:
        if not self.input:
            raise ConfigError("no input given; name files, folders or globs with --input")
        flags = ("vocab_size", "add_pieces", "tokenizer", "keep_vocabulary")
        chosen = [f"--{name.replace('_', '-')}" for name in flags if getattr(self, name)]
        if len(chosen) > 1:
            raise ConfigError(f"{' and '.join(chosen)} contradict each other: choose one")
        check_range(self, "1 or more", "add_pieces", "vocab_size", most=1_000_000)
        check_range(self, "0 or more and less than 1", "freeze_share", "dev_fraction")
        self.training()

    def training(self, start: str = "", max_positions: int = 512) -> PretrainConfig:
        """How the model in the folder ``start`` trains, which reads ``max_positions`` tokens."""
        is_name = "/" not in self.recipe and "." not in self.recipe
        path = recipe_path("pretrain", self.recipe) if is_name else Path(self.recipe)
        found = {k: v for k, v in read_toml(path).items() if k not in ("model", "initial")}
        lengths = {"steps": self.steps, "tokens": self.tokens, "budget": self.budget}
        if any(value is not None for value in lengths.values()):
            found |= lengths
        found |= {"data": str(self.out / "shards"), "out": str(self.out / "pretraining")}
        found |= {"init_from": start, "seed": self.seed, "threads": self.threads, "resume": "auto"}
        config = from_dict(PretrainConfig, found, str(path))
        config = replace(config, examples=replace(config.examples, length=min(config.examples.length, max_positions)))
        if self.keep_vocabulary or not self.freeze_share:
            return config
        table = replace(config.curriculum, trainable=((0.0, "words"), (self.freeze_share, "all")))
        return replace(config, curriculum=table)
