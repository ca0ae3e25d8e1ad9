"""A disk that fails: every write, rename, sync and removal of a command, one after the other.

``python tests/faulty_disk.py WORLD NAME EVERY`` counts what the command NAME does to the disk, then
runs it once for each ``EVERY``-th of these points and each way to fail there, goes on as a person
would, and compares the end with that of an undisturbed run, byte by byte. It prints JSON.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

Way = Literal["error", "cut"]
"""A full disk, which the command hears of; or the end of the process in the middle of a write."""

_OWN = ("replace", "rename", "fsync", "mkdir", "rmdir", "unlink", "truncate", "chmod", "link")
_DIED = 86


class FaultyDisk:
    """Counts what this process does to the disk; at one point it fails."""

    def __init__(self, folder: Path, fails_at: int | None = None, way: Way = "error") -> None:
        self.folder, self.fails_at, self.way = str(folder), fails_at, way
        self.points: list[str] = []

    def reach(self, what: str, path: object, before: Callable[[], object] | None = None) -> None:
        """Note a point; fail if it is the chosen one, after ``before``, which does half of it."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        name = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
        if not name.startswith(self.folder) or "tensorboard" in name:
            return
        self.points.append(f"{what} {Path(name).name}")
        if len(self.points) - 1 != self.fails_at:
            return
        if self.way == "error":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        if before is not None:
            before()
        os._exit(_DIED)

    def install(self) -> None:
        """Put itself between Python and the disk, for the rest of this process."""
        disk = self

        class Raw(io.FileIO):
            def write(self, data) -> int:  # type: ignore[no-untyped-def]
                view = memoryview(data).cast("B")
                half = view[: len(view) // 2]
                disk.reach("write", self.name, lambda: super(Raw, self).write(half))
                return super().write(view)

        real_open = io.open

        def faulty_open(
            file: Any,
            mode: str = "r",
            buffering: int = -1,
            encoding: str | None = None,
            errors: str | None = None,
            newline: str | None = None,
            closefd: bool = True,
            opener: Any = None,
        ) -> IO[Any]:
            if not set(mode) & set("wax+") or isinstance(file, int):
                return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
            disk.reach("open", file)
            raw = Raw(file, mode.replace("b", "").replace("t", ""))
            is_both = "+" in mode
            stream = io.BufferedRandom(raw) if is_both else io.BufferedWriter(raw)
            if "b" in mode:
                return stream
            return io.TextIOWrapper(stream, encoding or "utf-8", errors, newline)

        io.open = builtins.open = faulty_open  # type: ignore[assignment]

        if "torch" in sys.modules:  # weights are written in another language
            import safetensors.torch

            def save_file(tensors, filename, metadata=None) -> None:  # type: ignore[no-untyped-def]
                data = safetensors.torch.save(tensors, metadata)
                with faulty_open(filename, "wb") as stream:
                    stream.write(data)

            safetensors.torch.save_file = save_file
        for name in _OWN:
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            place = arguments[-1 if name in ("replace", "rename") else 0]
            parent = named.get("dir_fd")
            if isinstance(parent, int):
                place = os.path.join(os.readlink(f"/proc/self/fd/{parent}"), str(place))
            self.reach(name, place)
            return real(*arguments, **named)

        return call


@dataclass(frozen=True)
class Job:
    """A command, how to go on after it was disturbed, and the files that must come out the same."""

    command: str
    again: str
    same: tuple[str, ...]
    whole: str | None = None
    """a folder that is there whole or not at all, whatever happens"""


_TRAIN = "pretrain|--config|tiny.toml|--data|shards|--out|out|--steps|2"
_TUNE = "finetune|task.toml|--model|classifier|--out|out|--steps|2|--eval-every-steps|1|--batch-size|4"
_BUILD = "prepare|--tokenizer|tokenizer|--out|out|--workers|1|--shard-tokens|400|--input|text.txt"
JOBS: dict[str, Job] = {
    "checkpoints and final model": Job(
        _TRAIN, f"{_TRAIN}|--resume|auto", ("model/model.safetensors", "model/config.json"), "model"
    ),
    "fine-tuned model": Job(_TUNE, f"{_TUNE}|--resume|auto", ("model/model.safetensors", "model/task.json"), "model"),
    "build": Job(_BUILD, _BUILD, ("manifest.json", "train/00000.bin", "train/00000.idx")),
    "imported model": Job("import|hf|model|out", "import|hf|model|out", ("model.safetensors",), ""),
    "ONNX model": Job("export|onnx|model|out", "export|onnx|model|out", ("model.onnx",), ""),
}


def _in_child(world: Path, command: str, disk: FaultyDisk | None) -> tuple[int, list[str], str]:
    """Run a command in a process of its own: its exit status, the points, what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        said = io.StringIO()
        status = 70
        try:
            from litebert.cli import main

            os.chdir(world)
            sys.stdout = sys.stderr = said
            if disk is not None:
                disk.install()
            try:
                main(command.split("|"))
                status = 0
            except SystemExit as end:
                status = int(end.code or 0)
            except BaseException:
                said.write(traceback.format_exc()[-1500:])
        finally:
            points = disk.points if disk is not None else []
            os.write(writing, json.dumps([points, said.getvalue()[-1500:]]).encode())
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    points, said = json.loads(data) if data else ([], "")
    return os.waitstatus_to_exitcode(status), points, said


def _content(out: Path, job: Job) -> dict[str, bytes]:
    found = {name: (out / name).read_bytes() for name in job.same if (out / name).is_file()}
    for path in sorted(out.glob("*/*.bin")):
        found[str(path.relative_to(out))] = path.read_bytes()
    return found


def try_all(world: Path, name: str, every: int) -> dict[str, object]:
    """Disturb a job at its points; what went wrong, and how many points there were."""
    job, out = JOBS[name], world / "out"
    status, points, said = _in_child(world, job.command, FaultyDisk(out.parent, None))
    assert status == 0, said
    right = _content(out, job)
    assert len(right) >= len(job.same), f"{name} made {sorted(right)}"
    num_files = len(list((out / (job.whole or "")).rglob("*")))
    _clear(world)
    problems: list[str] = []
    tried = 0
    for number in range(0, len(points), every):
        for way in ("error", "cut"):
            tried += 1
            disk = FaultyDisk(out.parent, number, way)
            status, _, said = _in_child(world, job.command, disk)
            where = f"{name}: {way} at {number} ({points[number]})"
            if status not in ((_DIED,) if way == "cut" else (0, 2)) or "Traceback" in said:
                problems.append(f"{where}: exit {status}, {said}")
            if job.whole is not None and (out / job.whole).is_dir():
                there = len(list((out / job.whole).rglob("*")))
                if there not in (0, num_files):
                    problems.append(f"{where}: {there} of {num_files} files in the folder")
            finished = job.whole == "" and (out / job.same[0]).is_file()
            if not finished:
                status, _, said = _in_child(world, job.again, None)
                if status:
                    problems.append(f"{where}: going on ended with {status}, {said}")
            if _content(out, job) != right:
                problems.append(f"{where}: another end")
            _clear(world)
    return {"points": len(points), "tried": tried, "problems": problems}


def _clear(world: Path) -> None:
    shutil.rmtree(world / "out", ignore_errors=True)
    for path in world.glob(".out*"):
        shutil.rmtree(path, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    world, name, every = Path(arguments[0]), arguments[1], int(arguments[2])
    if name != "build":
        # Loaded before the fork, so that a point costs no imports.
        import litebert.train.finetuning.engine
        import litebert.train.pretraining.engine  # noqa: F401

    print(json.dumps(try_all(world, name, every)))


if __name__ == "__main__":
    main(sys.argv[1:])
