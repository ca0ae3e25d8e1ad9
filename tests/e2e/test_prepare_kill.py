"""Preparation killed at random moments and resumed ends in the bytes of an undisturbed run."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = 5


def command(text: Path, tokenizer: Path, out: Path, workers: int) -> list[str]:
    return [
        *(sys.executable, "-m", "litebert", "prepare"),
        *("--input", str(text), "--tokenizer", str(tokenizer), "--out", str(out)),
        *("--layout", "paragraphs", "--dev-fraction", "0.1", "--workers", str(workers)),
        *("--part-bytes", "60000", "--shard-tokens", "100000"),
    ]


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def num_parts(out: Path) -> int:
    return len(list((out / ".work" / "parts").glob("[0-9]*.npz")))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, python_text: Path) -> Path:
    """A few megabytes: the text several times, each time a little different."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    documents = python_text.read_text(encoding="utf-8").split("\n\n")
    copies = [f"Copy {n}.\n{document}" for n in range(8) for document in documents]
    path.write_text("\n\n".join(copies), encoding="utf-8")
    return path


@pytest.mark.parametrize("workers", [1, 2])
def test_five_kills_change_no_byte(tmp_path: Path, corpus: Path, tiny_tokenizer_dir: Path, workers: int) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    subprocess.run(command(corpus, tiny_tokenizer_dir, whole, 1), check=True)
    total = 2 + corpus.stat().st_size // 60_000
    generator = random.Random(workers)
    resumed = 0
    for kill in range(KILLS):
        process = subprocess.Popen(command(corpus, tiny_tokenizer_dir, out, workers), start_new_session=True)
        # A random moment: after a random number of parts and a random part of a second. The last
        # kill may hit the assembly, when parts disappear again.
        goal = num_parts(out) + generator.randint(1, 2 * total // KILLS)
        while process.poll() is None and num_parts(out) < goal and (kill < KILLS - 1 or not (out / "train").exists()):
            time.sleep(0.005)
        time.sleep(generator.random() / 20)
        process.kill()
        process.wait()
        resumed += num_parts(out) > 0
    assert resumed >= 2, "at least some kills left finished parts"
    subprocess.run(command(corpus, tiny_tokenizer_dir, out, workers), check=True)
    assert content(out) == content(whole)


def heed_interrupts() -> None:
    """A shell starts its background jobs, and so perhaps these tests, with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def started(arguments: list[str], out: Path, parts: int) -> subprocess.Popen[str]:
    """A build that has written so many parts and is still at work."""
    for _ in range(10):
        process = subprocess.Popen(
            arguments, stderr=subprocess.PIPE, start_new_session=True, text=True, preexec_fn=heed_interrupts
        )
        while process.poll() is None and num_parts(out) < parts:
            time.sleep(0.01)
        # Held for a moment: on a busy machine it may come to its end before a signal is sent.
        process.send_signal(signal.SIGSTOP)
        if process.poll() is None and num_parts(out) >= parts and not (out / "train").exists():
            return process
        process.kill()
        process.communicate()
        shutil.rmtree(out, ignore_errors=True)
    pytest.skip("the machine is too busy: every build was over before it could be interrupted")


def test_workers_end_with_a_killed_parent(tmp_path: Path, corpus: Path, tiny_tokenizer_dir: Path) -> None:
    out = tmp_path / "out"
    process = started(command(corpus, tiny_tokenizer_dir, out, 2), out, parts=2)
    children = children_of(process.pid)
    assert children, "worker processes run"
    process.kill()
    process.communicate()
    while any(is_running(child) for child in children):
        time.sleep(0.05)  # a worker that stays makes this test hang: a failure to be seen


def test_ctrl_c_is_one_line_and_the_build_can_be_continued(
    tmp_path: Path, corpus: Path, tiny_tokenizer_dir: Path
) -> None:
    out = tmp_path / "out"
    arguments = command(corpus, tiny_tokenizer_dir, out, 2)
    process = started(arguments, out, parts=1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "finished parts are kept; run the same command again to go on" in errors
    assert num_parts(out) >= 1
    assert not (out / "manifest.json").exists()
    subprocess.run(arguments, check=True)
    assert (out / "manifest.json").exists()


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("no /proc: cannot list child processes here")
    return [int(child) for child in path.read_text().split()]


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
