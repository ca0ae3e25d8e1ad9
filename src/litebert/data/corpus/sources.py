"""Sources of a corpus: which files there are, their format and layout, their fingerprints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from litebert.common.config import from_dict
from litebert.common.errors import DataError
from litebert.common.files import READ_ERRORS, open_binary, plain_suffix, sha256_file, write_json_lines
from litebert.common.rows import read_rows
from litebert.data.corpus.config import Layout
from litebert.data.corpus.layouts import TextLayout, detect_layout
from litebert.data.corpus.manifest import Split
from litebert.text.corpus import find_files

Format = Literal["text", "jsonl", "parquet", "squad"]

_JSON_LINES = (".jsonl", ".ndjson", ".json")
# A SQuAD file is one JSON object; that its articles have paragraphs stands near its beginning.
_SQUAD_MARK, _MARK_BYTES = b'"paragraphs"', 4096
_SAMPLE_FILES, _SAMPLE_BYTES = 8, 1 << 18
# Bytes of text in a byte of file: only for the progress bar, until the file has been read.
_EXPANSION = {".gz": 2.7, ".xz": 3.7, ".zst": 3.0}


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the corpus."""

    path: str
    format: Format
    layout: TextLayout | None  # layout of plain text; None for the other formats
    split: Split
    bytes: int
    sha256: str
    mtime_ns: int = 0  # only to trust the hash of an unfinished build; no part of the fingerprint

    @property
    def text_bytes_estimate(self) -> float:
        """Roughly how much text the file holds."""
        return self.bytes * _EXPANSION.get(Path(self.path).suffix.lower(), 1.0)

    def record(self) -> dict[str, object]:
        """Return what identifies the source, for ``sources.jsonl``."""
        return {key: value for key, value in asdict(self).items() if key != "mtime_ns"}


@dataclass(frozen=True)
class Input:
    """One path or pattern that the user gave: its files and how they are read."""

    name: str
    files: tuple[Path, ...]
    layout: TextLayout | None
    split: Split
    reason: str  # why the layout was chosen

    def describe(self) -> str:
        """Say in one line what was found."""
        formats = sorted({format_of(path) for path in self.files})
        number = f"{len(self.files):,} file{'s' if len(self.files) > 1 else ''}"
        layout = f", layout {self.layout} ({self.reason})" if self.layout else ""
        split = ", dev split" if self.split == "dev" else ""
        return f"{self.name}: {number}, {' and '.join(formats)}{layout}{split}"


def format_of(path: Path) -> Format:
    """Return the format by a file's name, else plain text; SQuAD's .json is told by its content."""
    suffix = plain_suffix(path)
    if suffix == ".json" and _SQUAD_MARK in _head(path, _MARK_BYTES):
        return "squad"
    if suffix in _JSON_LINES:
        return "jsonl"
    return "parquet" if suffix == ".parquet" else "text"


def find_inputs(patterns: Iterable[Path], split: Split, layout: Layout, language: str, skip: Path) -> list[Input]:
    """Find the files of each pattern, not those below ``skip``, and their layout if ``auto``."""
    inputs: list[Input] = []
    for pattern in patterns:
        files = tuple(path for path in find_files([pattern]) if skip not in path.absolute().parents)
        if not files:
            raise DataError(f"input {pattern} holds only the output folder {skip}; choose another")
        chosen, reason = None if layout == "auto" else layout, "as set"
        texts = [path for path in files if format_of(path) == "text"]
        if texts and layout == "auto":
            spread = texts[:: max(1, len(texts) // _SAMPLE_FILES)][:_SAMPLE_FILES]
            heads = [_head(path, _SAMPLE_BYTES) for path in spread]
            samples = [head.decode(errors="ignore") for head in heads if head and b"\0" not in head]
            chosen, found_by = detect_layout(samples, language)
            reason = f"detected: {found_by}"
        inputs.append(Input(str(pattern), files, chosen if texts else None, split, reason))
    return inputs


def fingerprint_sources(inputs: Sequence[Input], known: Iterable[Source]) -> Iterator[Source]:
    """Yield the sources in order, each file once, hashed.

    Dev inputs come first: of a document that is in both, the dev split keeps its copy. Of the ``known``, which were
    hashed before, one of equal size and time is not read again.
    """
    hashes = {(source.path, source.bytes, source.mtime_ns): source.sha256 for source in known}
    seen: set[Path] = set()
    for group in inputs:
        for path in group.files:
            if (resolved := path.resolve()) in seen:
                continue
            seen.add(resolved)
            kind, status = format_of(path), path.stat()
            size, time = status.st_size, status.st_mtime_ns
            try:
                sha256 = hashes.get((str(path), size, time)) or sha256_file(path)
            except OSError as error:
                raise DataError(f"input {path} cannot be read: {error.strerror}") from None
            yield Source(str(path), kind, group.layout if kind == "text" else None, group.split, size, sha256, time)


def write_sources(path: Path, sources: Iterable[Source], *, times: bool) -> None:
    """Write one source a line; with ``times`` for an unfinished build's own use."""
    write_json_lines(path, (asdict(s) if times else s.record() for s in sources))


def read_sources(path: Path) -> Iterator[Source]:
    """Read what :func:`write_sources` wrote."""
    for number, row in read_rows(path):
        yield from_dict(Source, row, f"{path}:{number}")


def _head(path: Path, num_bytes: int) -> bytes:
    """Return how a file begins; nothing if it is damaged: that is reported when it is read."""
    try:
        with open_binary(path) as stream:
            return stream.read(num_bytes)
    except READ_ERRORS:
        return b""
