"""Settings of corpus preparation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from litebert.common.errors import ConfigError

Layout = Literal["auto", "sentences", "paragraphs", "files"]
EngineName = Literal["local", "ray"]

DEFAULT_DEV_FRACTION = 0.005


@dataclass(frozen=True)
class PrepareConfig:
    """How raw text becomes token shards.

    Example:
        >>> PrepareConfig(input=(Path("wiki.txt.xz"),), tokenizer=Path("tok"), out=Path("shards"))
    """

    input: Annotated[tuple[Path, ...], Parameter(consume_multiple=True, negative="")]
    """Files, folders or quoted globs of plain text, .jsonl or .parquet, also .gz, .xz or .zst."""
    tokenizer: Path
    """Folder of the tokenizer."""
    out: Path
    """Folder for the shards. An interrupted build in it is continued."""
    layout: Layout = "auto"
    """What a line of plain text is (blank lines part documents), or one file a document."""
    column: str = "text"
    """Name of the text in JSON lines and Parquet."""
    language: str = "en"
    """Language of the text, for sentence splitting."""
    dev_input: Annotated[tuple[Path, ...], Parameter(consume_multiple=True, negative="")] = ()
    """Text that makes the dev split instead of a share of the input."""
    dev_fraction: float | None = None
    """Share of the documents for the dev split, by hash; 0.005, or 0 with --dev-input."""
    dedup: bool = True
    """Keep only the first of identical documents."""
    workers: int | None = None
    """Worker processes (default: all cores). The output does not depend on it."""
    engine: EngineName = "local"
    """Where workers run: on this machine, or on a Ray cluster (RAY_ADDRESS, else a local one)."""
    strict: Annotated[bool, Parameter(negative="")] = False
    """Stop at the first broken line or file instead of counting it."""
    restart: Annotated[bool, Parameter(negative="")] = False
    """Discard what the output folder holds from another or an unfinished build."""
    shard_tokens: int = 1 << 24
    """Tokens in one shard, about."""
    block_bytes: int = 4 << 20
    """Text that a worker handles at once. A document of more than four blocks is cut."""

    def __post_init__(self) -> None:
        if not self.input:
            raise ConfigError("no input given; name files, folders or globs with --input")
        if self.dev_fraction is not None and not 0 <= self.dev_fraction < 1:
            raise ConfigError(
                f"dev_fraction {self.dev_fraction} is not a share; choose 0 or more and less than 1"
            )
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"workers {self.workers} is too small; choose at least 1")
        if not 1 <= self.shard_tokens < 1 << 31:
            raise ConfigError(
                f"shard_tokens {self.shard_tokens} is out of range; choose 1 to 2,147,483,647"
            )

        if self.block_bytes < 1:
            raise ConfigError(f"block_bytes {self.block_bytes} is too small; choose at least 1")

    @property
    def dev_share(self) -> float:
        """The share of the input that goes to the dev split."""
        if self.dev_fraction is not None:
            return self.dev_fraction
        return 0.0 if self.dev_input else DEFAULT_DEV_FRACTION
