"""No file that a person can name makes a command end with a traceback, or take the memory."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hostile_files
from hostile_files import READERS

PEAK_BYTES = 1 << 30
SAMPLE = 5
MANY = 180


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path, tiny_shards_dir: Path) -> Path:
    """One small file of every kind."""
    folder = tmp_path_factory.mktemp("world") / "world"
    folder.mkdir()
    hostile_files.make_world(folder, tiny_tokenizer_dir, tiny_shards_dir)
    return folder


def attack(world: Path, tmp_path: Path, seed: int, counts: dict[str, int]) -> None:
    own = shutil.copytree(world, tmp_path / "world")
    tasks = [f"{name}={count}" for name, count in counts.items()]
    answer = subprocess.run(
        [sys.executable, hostile_files.__file__, str(own), str(seed), *tasks],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    now = (own / "now").read_text() if (own / "now").is_file() else "the beginning"
    assert answer.returncode == 0, f"died at {now}: {answer.stderr[-2000:]}"
    found = json.loads(answer.stdout.splitlines()[-1])
    assert found["tried"] == counts
    assert not found["problems"], "\n\n".join(found["problems"])
    assert found["peak_bytes"] < PEAK_BYTES
    record = Path("build/reliability")
    record.mkdir(parents=True, exist_ok=True)
    name = "-".join("".join(c if c.isalnum() else "-" for c in key) for key in list(counts)[:2])
    (record / f"{name}.json").write_text(json.dumps(found))


def test_a_few_mutations_of_every_file(world: Path, tmp_path: Path) -> None:
    attack(world, tmp_path, 0, dict.fromkeys(READERS, SAMPLE))


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_many_mutations(world: Path, tmp_path: Path, name: str) -> None:
    assert MANY * len(READERS) >= 5000
    attack(world, tmp_path, 1, {name: MANY})


HUGE = {
    "rows.jsonl": lambda stream: _repeat(stream, b'{"text": "', b"x" * (1 << 20), 200, b'"}\n'),
    "rows.csv": lambda stream: _repeat(stream, b"text,label\n", b"x" * (1 << 20), 200, b",O\n"),
}


def _repeat(stream, head: bytes, block: bytes, count: int, tail: bytes) -> None:  # type: ignore[no-untyped-def]
    stream.write(head)
    for _ in range(count):
        stream.write(block)
    stream.write(tail)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HUGE, "rows.parquet", "deep.json"])
def test_huge_rows_take_bounded_memory(world: Path, tmp_path: Path, name: str) -> None:
    """Lines of 200 MB, rows of 20 MB, ten million brackets in a line of 50 MB."""
    path = tmp_path / name
    if name == "rows.parquet":
        import pyarrow
        import pyarrow.parquet

        kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())  # a text is stored once
        schema = pyarrow.schema([("text", kind)])
        with pyarrow.parquet.ParquetWriter(path, schema, store_schema=False) as writer:
            for letter in "abcdefgh":
                texts = pyarrow.DictionaryArray.from_arrays([0] * 50, [letter * 20_000_000])
                writer.write_table(pyarrow.table({"text": texts}, schema))
    elif name == "deep.json":
        path.write_bytes(b'{"a":' * 10_000_000)
    else:
        with path.open("wb") as stream:
            HUGE[name](stream)
    command = [sys.executable, "-c", _MEASURED, "predict", str(world / "task.toml")]
    command += ["--model", str(world / "classifier"), "--input", str(path)]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" not in answer.stderr, answer.stderr[-2000:]
    assert int(answer.stderr.rsplit("peak ", 1)[1]) < PEAK_BYTES


_MEASURED = """
import re, sys
from pathlib import Path
from litebert.cli import main
try:
    main(sys.argv[1:])
finally:
    # Not getrusage, whose figure begins with that of the process that started this one.
    peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
    print("peak", int(peak[1]) * 1024, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    ["import|hf|model|out", pytest.param("export|checkpoint|run|out", marks=pytest.mark.slow),
     pytest.param("export|onnx|model|out", marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_full_disk_is_one_line_and_leaves_nothing(world: Path, tmp_path: Path, command: str) -> None:
    """A limit on the size of files stands for the disk: every writer meets it, in any language."""
    own = shutil.copytree(world, tmp_path / "world")
    answer = subprocess.run(
        [sys.executable, "-m", "litebert", *command.split("|")],
        cwd=own,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
    )
    assert answer.returncode == 2, answer.stderr
    (line,) = [x for x in answer.stderr.splitlines() if x.startswith("litebert: error")]
    assert "large" in line or "space" in line, line
    assert not (own / "out").exists()
    assert not list(own.glob(".out*"))
