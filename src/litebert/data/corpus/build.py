"""An unfinished build: its request, its finished parts, and what may be continued."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from litebert.common.config import from_dict
from litebert.common.errors import DataError
from litebert.common.files import atomic_path, read_json, remove, write_json
from litebert.common.ownership import owned_folder
from litebert.data.corpus.manifest import FORMAT, MANIFEST, Manifest
from litebert.data.corpus.sources import Source, read_sources, write_sources

SOURCES = "sources.jsonl"
PROBLEMS = "problems.jsonl"
_WORK = ".work"
_REQUEST = "request.json"
_WORKED = (_REQUEST, SOURCES, "parts", "assembly.json", "dropped.npy", "hashes")
_MADE = (MANIFEST, SOURCES, PROBLEMS, "train", "dev", "tokenizer", _WORK)


@dataclass(frozen=True)
class BuildRequest:
    """All that the output depends on; a build is continued only with an equal request."""

    tokenizer: str
    settings: dict[str, str]
    sources: tuple[Source, ...]

    def difference(self, old: BuildRequest) -> str | None:
        """Say what changed since ``old``, or None if nothing did."""
        if self.tokenizer != old.tokenizer:
            return f"the tokenizer changed (fingerprint {old.tokenizer[:12]} before)"
        for key in {**old.settings, **self.settings}:
            value = self.settings.get(key)
            if old.settings.get(key) != value:
                flag = "--dev-fraction" if key == "dev_share" else f"--{key.replace('_', '-')}"
                return f"{flag} was {old.settings.get(key)} and is now {value}"
        if [source.path for source in self.sources] != [source.path for source in old.sources]:
            return f"it was of other source files ({len(old.sources)} then, {len(self.sources)} now)"
        pairs = zip(self.sources, old.sources, strict=True)
        changed = (now.path for now, before in pairs if now.record() != before.record())
        return next((f"source {path} changed" for path in changed), None)


class BuildFolder:
    """The output folder of a build, locked while it is open.

    Parts lie in ``.work/parts`` until they are joined to shards. Every file appears whole: what is there is finished.
    """

    def __init__(self, out: Path) -> None:
        self.out, self.work = out, out / _WORK
        self.parts = self.work / "parts"
        self.assembly = self.work / "assembly.json"  # how parts become shards; appears once all parts are there

    @classmethod
    @contextmanager
    def open(cls, out: Path) -> Iterator[BuildFolder]:
        """Make the folder if need be and own it."""
        with owned_folder(out, _is_build):
            yield cls(out)

    @property
    def is_finished(self) -> bool:
        """Whether the folder holds complete shards."""
        return (self.out / MANIFEST).is_file()

    def known_sources(self) -> Iterator[Source]:
        """Yield the sources that an unfinished build hashed."""
        path = self.work / SOURCES
        if path.is_file():
            yield from read_sources(path)

    def begin(self, request: BuildRequest, restart: bool) -> None:
        """Start a build, or go on with one of the same request; refuse what would mix two."""
        if restart:
            self._discard()
        old = self._old_request()
        if old is not None and (difference := request.difference(old)) is not None:
            if self.is_finished or any(self.parts.glob("*.npz")) or self.assembly.is_file():
                kind = "a finished" if self.is_finished else "an unfinished"
                remedy = "choose another --out, or discard what it holds with --restart"
                raise DataError(f"{self.out} holds {kind} build: {difference}; {remedy}")
            self._discard()  # nothing was done yet: nothing is lost
        if self.is_finished:
            shutil.rmtree(self.work, ignore_errors=True)
            return
        if old is None:
            self._discard()  # what a process killed while discarding or beginning left
        for path in [*self.out.rglob(".*.tmp")]:  # half written by a process that was killed
            remove(path)
        self.parts.mkdir(parents=True, exist_ok=True)
        write_sources(self.work / SOURCES, request.sources, times=True)
        write_json(self.work / _REQUEST, {"tokenizer": request.tokenizer, "settings": request.settings})

    def part(self, index: int) -> Path:
        """Return the file of a part."""
        return self.parts / f"{index:06d}.npz"

    def write_part(self, index: int, data: bytes) -> None:
        """Keep a finished part."""
        with atomic_path(self.part(index)) as temporary:
            temporary.write_bytes(data)

    def _old_request(self) -> BuildRequest | None:
        """What the build that the folder holds was started with, if it holds one."""
        if self.is_finished:
            manifest, path = Manifest.read(self.out), self.out / SOURCES
            if not path.is_file():
                raise DataError(f"{path} is missing; prepare the corpus again with --restart")
            return BuildRequest(manifest.tokenizer, manifest.settings, tuple(read_sources(path)))
        if not (self.work / _REQUEST).is_file():
            return None
        values = read_json(self.work / _REQUEST) | {"sources": tuple(self.known_sources())}
        return from_dict(BuildRequest, values, str(self.work))

    def _discard(self) -> None:
        """Remove a build: the manifest first, the mark that the folder is ours last."""
        self.work.mkdir(exist_ok=True)
        for name in _MADE:
            remove(self.out / name)


def _is_build(out: Path) -> bool:
    """Whether a build made the folder: nothing else is ever written to or removed."""
    path, work = out / MANIFEST, out / _WORK
    if work.is_dir():
        return all(item.name in _WORKED or item.suffix == ".tmp" for item in work.iterdir())
    try:
        return path.is_file() and read_json(path).get("format") == FORMAT
    except DataError:
        return False
