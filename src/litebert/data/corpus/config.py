"""Settings of corpus preparation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from litebert.common.config import MOST_PROCESSES, check_range
from litebert.common.errors import ConfigError

Layout = Literal["auto", "sentences", "paragraphs", "files"]
EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class PrepareConfig:
    """How raw text becomes token shards."""

    input: tuple[Path, ...]
    """files, folders, quoted globs or addresses (s3://, hf://) of plain text, .jsonl, .parquet, \
or the passages of SQuAD (.json) and RACE (.jsonl); also .gz, .xz or .zst"""
    tokenizer: Path
    """folder of the tokenizer"""
    out: Path
    """folder for the shards; an interrupted build in it is continued"""
    layout: Layout = "auto"
    """what a line of plain text is (blank lines part documents), or one file a document"""
    column: str = "text"
    """name of the text in JSON lines and Parquet"""
    language: str = ""
    """language of the text, for sentence splitting; default: the tokenizer's, else en"""
    dev_input: tuple[Path, ...] = ()
    """text that makes the dev split instead of a share of the input"""
    dev_fraction: float | None = None
    """share of the documents for the dev split, by hash; 0.005, or 0 with --dev-input"""
    dev_group: str | None = None
    """documents that go to one split together: those of a file (file), or with one value of a \
column in JSON lines and Parquet (book, site); default: each document by itself"""
    dedup: bool = True
    """keep only the first of identical documents"""
    workers: int | None = None
    """worker processes, all cores unless set; the output does not depend on it"""
    engine: EngineName = "local"
    """where workers run: on this machine, or on a Ray cluster (RAY_ADDRESS, else a local one)"""
    strict: bool = False
    """stop at the first broken line or file instead of counting it"""
    allow_unknown: bool = False
    """go on where the vocabulary does not know most of the text"""
    restart: bool = False
    """discard what the output folder holds from another or an unfinished build"""
    ids: bool = False
    """the input is not text but piece ids: JSON lines, a document each, a list of sentences, or \
one list in which -1 ends a sentence"""
    shard_tokens: int = 1 << 24
    """tokens in one shard, about"""
    part_bytes: int = 4 << 20
    """text that a worker handles at once; a document of more than four times as much is cut"""

    def __post_init__(self) -> None:
        if not self.input:
            raise ConfigError("no input given; name files, folders or globs with --input")
        if self.ids and self.dev_group not in (None, "file"):
            raise ConfigError(f"--dev-group {self.dev_group}: ids have no columns; use file")
        if self.dev_group and not self.dev_share:
            raise ConfigError(f"--dev-group {self.dev_group} needs a --dev-fraction above 0")
        check_range(self, "0 or more and less than 1", "dev_fraction")
        check_range(self, "1 or more", "workers", most=MOST_PROCESSES)
        check_range(self, "1 or more", "part_bytes", most=1 << 28)
        if not 1 <= self.shard_tokens < 1 << 31:
            raise ConfigError(f"shard_tokens {self.shard_tokens} is out of range; choose 1 to 2,147,483,647")

    @property
    def dev_share(self) -> float:
        """The share of the input that goes to the dev split."""
        if self.dev_fraction is not None:
            return self.dev_fraction
        return 0.0 if self.dev_input else 0.005
