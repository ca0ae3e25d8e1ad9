"""One question to a real server: start it on a free port, ask over HTTP, stop it cleanly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from litebert.common.errors import LitebertError

_ADDRESS = re.compile(r"on (http://\S+)")
_STOP_S = 60.0
_ANSWER_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What was asked and what came back.

    Example:
        >>> ask_server([Path("int8")], "/classify", {"text": "Open a window."}).answer["results"]
    """

    command: str
    """the server's command line"""
    path: str
    request: dict[str, object]
    answer: dict[str, object]
    milliseconds: float
    """from the request to its answer, over HTTP"""
    exit_status: int
    """of the server after it was asked to stop; 0 means that it ended cleanly"""


def ask_server(models: Sequence[Path], path: str, body: Mapping[str, object]) -> Answer:
    """Serve models in a process of their own, ask one question, and stop the server.

    Args:
        models: model folders or ONNX folders.
        path: such as ``/classify``.
        body: the JSON to send.
    """
    arguments = ["serve", "--port", "0"]
    for model in models:
        arguments += ["--model", str(model)]
    with _server(arguments) as (process, address):
        answer, seconds = _post(address + path, body)
        process.terminate()
        status = process.wait(_STOP_S)
    shown = f"litebert {' '.join(arguments)}"
    return Answer(shown, path, dict(body), answer, round(1000 * seconds, 1), status)


@contextmanager
def _server(arguments: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process and its address once it answers; it never outlives the block."""
    # A key in the environment would be asked for; this server is ours alone.
    environment = {key: value for key, value in os.environ.items() if key != "LITEBERT_API_KEY"}
    process = subprocess.Popen(
        [sys.executable, "-m", "litebert", *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        assert process.stderr is not None, "a pipe was asked for"
        yield process, _address(process.stderr)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _address(lines: IO[str]) -> str:
    said: list[str] = []
    for line in lines:
        found = _ADDRESS.search(line)
        if found:
            return found.group(1)
        said.append(line.strip())
    raise LitebertError(f"the server did not start: {' '.join(said) or 'it said nothing'}")


def _post(url: str, body: Mapping[str, object]) -> tuple[dict[str, object], float]:
    request = Request(
        url, json.dumps(body).encode(), headers={"content-type": "application/json"}, method="POST"
    )
    opener = build_opener(ProxyHandler({}))  # a proxy knows nothing of this machine's loopback
    started = time.perf_counter()
    try:
        with opener.open(request, timeout=_ANSWER_S) as response:
            answer = json.load(response)
    except HTTPError as error:
        raise LitebertError(f"{url} answered {error.code}: {error.read().decode()}") from None
    except URLError as error:
        raise LitebertError(f"{url} cannot be reached: {error.reason}") from None
    return answer, time.perf_counter() - started
