"""Progress leaves standard output alone."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

PROGRAM = """
import json
from litebert.common.progress import progress

with progress("counting", total=3, unit="row") as bar:
    for number in range(3):
        print(json.dumps({"number": number, "text": "long " * 40}))
        bar.advance()
"""


def run(out: Path | None) -> tuple[int, str]:
    """Run the program with a terminal as standard error; as standard output too without a file."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(ours, 4096):
                shown.append(part)
        except OSError:
            pass  # how a terminal says that nobody holds its other end any more

    with Path(out or os.devnull).open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.DEVNULL,
            stdout=theirs if out is None else file,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "300"},
        )
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    status = process.wait()
    reader.join()
    os.close(ours)
    return status, b"".join(shown).decode()


def test_a_bar_on_a_terminal_leaves_answers_in_their_file(tmp_path: Path) -> None:
    status, shown = run(tmp_path / "out.jsonl")
    assert status == 0, shown
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 2]
    assert "counting" in shown
    assert '"number"' not in shown


def test_lines_on_the_terminal_of_a_bar_stay_whole() -> None:
    status, shown = run(None)
    assert status == 0, shown
    for number in range(3):
        assert json.dumps({"number": number, "text": "long " * 40}) in shown
    assert "counting" in shown
