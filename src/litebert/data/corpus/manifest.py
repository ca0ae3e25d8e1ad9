"""The manifest of a prepared corpus: what the shards hold, and what they were made of."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from litebert.common.config import check_range, from_dict, to_dict
from litebert.common.errors import ConfigError, DataError
from litebert.common.files import read_json, write_json

Split = Literal["train", "dev"]

MANIFEST = "manifest.json"
FORMAT = "litebert-shards"
VERSION = 1


@dataclass(frozen=True)
class ShardEntry:
    """Counts of one shard and the SHA-256 of its two files."""

    documents: int
    sentences: int
    tokens: int
    bin: str
    idx: str

    def __post_init__(self) -> None:
        check_range(self, "0 or more", "documents", "sentences", "tokens")


@dataclass(frozen=True)
class SplitEntry:
    """Counts of one split and its shards in order."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    shards: tuple[ShardEntry, ...] = ()

    @classmethod
    def of(cls, shards: tuple[ShardEntry, ...]) -> SplitEntry:
        """Sum up the shards of a split."""
        sums = {name: sum(getattr(s, name) for s in shards) for name in ("documents", "sentences", "tokens")}
        return cls(**sums, shards=shards)


@dataclass(frozen=True)
class SourceCounts:
    """What was read: the files themselves are listed in ``sources.jsonl``."""

    files: int = 0
    file_bytes: int = 0
    text_bytes: int = 0
    documents: int = 0
    duplicate_documents: int = 0
    empty_documents: int = 0
    fingerprint: str = ""  # SHA-256 of ``sources.jsonl``, which holds the SHA-256 of every source


@dataclass(frozen=True)
class Manifest:
    """The content of ``manifest.json``; it holds no time and no path of this machine's output."""

    vocab_size: int
    dtype: str
    tokenizer: str = ""  # fingerprint of the tokenizer; equal fingerprints give equal ids
    splits: dict[str, SplitEntry] = field(default_factory=dict)
    sources: SourceCounts = SourceCounts()
    problems: dict[str, int] = field(default_factory=dict)  # how often each kind was met; problems.jsonl names them
    settings: dict[str, str] = field(default_factory=dict)  # the settings that change the output
    format: str = FORMAT
    version: int = VERSION

    def __post_init__(self) -> None:
        check_range(self, "1 or more", "vocab_size", most=10_000_000)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a folder of shards, or say why the folder is none."""
        path = folder / MANIFEST
        if not folder.is_dir():
            raise DataError(f"{folder} does not exist; make shards with `litebert prepare`")
        if not path.is_file():
            problem = f"has no {MANIFEST}: it holds no shards or an unfinished build"
            raise DataError(f"{folder} {problem}; run `litebert prepare` (again)")
        values = read_json(path)
        if values.get("format") != FORMAT or values.get("version") != VERSION:
            raise DataError(f"{path} is not a {FORMAT} manifest of version {VERSION}")
        try:
            manifest = from_dict(cls, values, str(path))
        except ConfigError as error:
            raise DataError(f"{error}; run `litebert prepare` again") from None
        for name, split in manifest.splits.items():
            if split != SplitEntry.of(split.shards):
                problem = f"the counts of {name} are not the sums of its shards': the file was changed"
                raise DataError(f"{path}: {problem}; put it back, or run `litebert prepare` into a new folder")
        return manifest

    def write(self, folder: Path) -> None:
        """Write ``manifest.json``: the last file of a build."""
        write_json(folder / MANIFEST, to_dict(self))

    def split(self, name: Split) -> SplitEntry:
        """Return a split's entry; one that was not made is empty."""
        return self.splits.get(name, SplitEntry())

    def fingerprint(self, split: Split) -> str:
        """Hash of the tokenizer and of every token and offset of a split."""
        digest = hashlib.sha256(f"{self.tokenizer}:{self.vocab_size}:{self.dtype}".encode())
        for shard in self.split(split).shards:
            digest.update(f":{shard.bin}:{shard.idx}".encode())
        return digest.hexdigest()
