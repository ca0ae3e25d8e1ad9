"""Run folders: a manifest that says what ran, and one JSON line per logged step."""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import near_folders, read_json, write_json
from litebert.common.rows import read_rows_or_errors

MANIFEST_FILE = "manifest.json"
MODEL_FOLDER = "model"  # the final one of a run
SAMPLES_FILE = "samples.json"
MISTAKES_FILE = "mistakes.json"
RESULT_FILE = "result.json"  # how a fine-tuning run ended; its presence means the end
BASELINES = {"words": "bag of words", "random": "random weights", "untrained": "untrained", "bm25": "BM25"}
"""What a fine-tuning is compared with when asked to, and how reports call it."""

_REPORTED_PACKAGES = ("litebert", "torch", "numpy", "sentencepiece", "tokenizers", "safetensors")

_logger = logging.getLogger(__name__)


class RunFolder:
    """A folder that holds everything about one run; reports are made from it alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics_path = path / "metrics.jsonl"

    @classmethod
    def create(
        cls,
        path: Path | str,
        config: Mapping[str, object],
        seeds: Mapping[str, int],
        fingerprints: Mapping[str, str] | None = None,
    ) -> RunFolder:
        """Make the folder and its manifest; a folder that already holds a run is refused."""
        path = Path(path)
        cls.refuse_existing(path)
        path.mkdir(parents=True, exist_ok=True)
        manifest = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "argv": sys.argv,
            "config": dict(config),
            "seeds": dict(seeds),
            "fingerprints": dict(fingerprints or {}),
            "versions": _versions(),
            "commit": _commit(),
            "machine": {"platform": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
        }
        write_json(path / MANIFEST_FILE, manifest)
        return cls(path)

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether the folder holds a run; other folders have a file of that name too."""
        path = path / MANIFEST_FILE
        return path.is_file() and {"argv", "config"} <= read_json(path).keys()

    @classmethod
    def refuse_existing(cls, path: Path) -> None:
        """Raise a DataError if the folder already holds a run: before long work, not after it."""
        if not cls.exists(path):
            return
        if (path / MODEL_FOLDER).is_dir():
            is_fixed = (path / RESULT_FILE).is_file()  # a fine-tuning keeps its length
            longer = "" if is_fixed else ", train on with --resume auto and a longer run,"
            raise DataError(
                f"{path} already holds a run that has finished: its model is {path / MODEL_FOLDER}; choose another "
                f"--out{longer} or delete that folder to start over"
            )
        raise DataError(f"{path} already holds a run; go on with --resume auto or choose another --out")

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Open an existing run folder."""
        path = Path(path)
        if not cls.exists(path):
            near = near_folders(path) if not path.exists() else ""
            if cls.exists(path.absolute().parent):
                near = f" Did you mean '{path.parent}'?"
            raise DataError(f"{path} is not a run folder: it has no {MANIFEST_FILE} of a run.{near}")
        return cls(path)

    def manifest(self) -> dict[str, object]:
        """Return what ran: config, argv, versions, commit, seeds, fingerprints."""
        return read_json(self.path / MANIFEST_FILE)

    def section(self, key: str) -> Mapping[str, object]:
        """Return a table of the manifest, such as ``config``; a manifest without it is damaged."""
        value = self.manifest().get(key)
        if not isinstance(value, Mapping):
            raise DataError(f"{self.path / MANIFEST_FILE} is damaged: it has no table '{key}'; put the file back")
        return value

    def log(self, step: int, values: Mapping[str, object]) -> None:
        """Append one flushed line of metrics."""
        self._append({"step": step, **values})

    def event(self, name: str, step: int, **fields: object) -> None:
        """Append a line that marks something that happened, such as a resume."""
        self._append({"event": name, "step": step, **fields})

    def metrics(self) -> Iterator[dict[str, object]]:
        """Yield the logged lines; those that a crash left broken are left out, and counted."""
        if not self.metrics_path.exists():
            return
        num_broken = 0
        for _, row in read_rows_or_errors(self.metrics_path):
            if isinstance(row, DataError):
                num_broken += 1
            else:
                yield row
        if num_broken:
            _logger.warning("%s: %d broken lines are left out", self.metrics_path, num_broken)

    def metrics_position(self) -> int:
        """Return the size of the metrics file in bytes, to be stored in a checkpoint."""
        return self.metrics_path.stat().st_size if self.metrics_path.exists() else 0

    def truncate_metrics(self, position: int) -> None:
        """Drop lines after a checkpoint's position, which a resumed run logs again; close one that a power cut left."""
        if self.metrics_position() > position:
            os.truncate(self.metrics_path, position)
        if self.metrics_position():
            with self.metrics_path.open("r+b") as stream:
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":
                    stream.write(b"\n")

    def _append(self, record: Mapping[str, object]) -> None:
        with self.metrics_path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def is_main_process() -> bool:
    """Whether this process talks to people: the first of those that torchrun started."""
    return int(os.environ.get("RANK", "0")) == 0


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _REPORTED_PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _commit() -> str | None:
    """Return the git commit of the source tree, or None for an installed package."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return None
