"""Logs: they never make the writer wait, and say what was dropped."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator

import pytest

from litebert.serve.telemetry import REQUEST_ID, LogStream, log_to


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def leave(reader: int) -> None:
    """Close the reading end of a pipe; its number stays taken."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), reader)


def test_a_reader_that_stops_costs_entries_and_nothing_else(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    stream, dropped = LogStream(writer, max_entries=100), []
    stream.on_drop = lambda: dropped.append(1)
    for number in range(5000):
        stream.write(f"{number:0100}\n")  # never returns if it waits for the reader
    assert 4000 < len(dropped) < 5000, "a pipe holds 64 KB, the queue 100"
    content = b""
    while content.count(b"\n") < 5000 - len(dropped):
        content += os.read(reader, 65_536)
    stream.write("after\n")
    stream.close()
    content += os.read(reader, 65_536)
    lines = content.decode().splitlines()
    told = [json.loads(line)["dropped_log_lines"] for line in lines if line.startswith("{")]
    assert sum(told) == len(dropped)
    assert [line for line in lines if not line.startswith("{")][-1] == "after"


def test_a_reader_that_never_reads_again_does_not_keep_the_process(pipe: tuple[int, int]) -> None:
    stream = LogStream(pipe[1], max_entries=10)
    for _ in range(2000):
        stream.write("x" * 200)
    stream.close(timeout_s=0.05)
    leave(pipe[0])
    stream.close()


def test_a_reader_that_left_is_counted(pipe: tuple[int, int]) -> None:
    stream, dropped = LogStream(pipe[1]), []
    stream.on_drop = lambda: dropped.append(1)
    leave(pipe[0])
    stream.write("nobody\n")
    stream.close()
    assert dropped == [1]


def test_what_libraries_log_names_the_request(pipe: tuple[int, int]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = LogStream(pipe[1])
    token = REQUEST_ID.set("r-1")
    try:
        log_to(stream)
        logging.getLogger("some.library").error("it broke")
    finally:
        REQUEST_ID.reset(token)
        logging.captureWarnings(False)
        root.handlers[:], root.level = before, level
    stream.close()
    assert os.read(pipe[0], 1000) == b"ERROR [r-1] it broke\n"
