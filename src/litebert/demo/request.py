"""One question to a real server: start it on a free port, ask over HTTP, stop it cleanly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from litebert.common.errors import LitebertError

_STOP_S = 60.0
_ANSWER_S = 60.0


def ask_server(model: Path, path: str, body: Mapping[str, object]) -> dict[str, object]:
    """Serve a model in a process of its own, ask one question, and stop the server.

    Returns what was asked and answered, in how many milliseconds over HTTP, and the server's exit
    status: 0 if it ended cleanly.
    """
    arguments = ["serve", "--port", "0", "--model", str(model)]
    # A key in the environment would be asked for; this server is ours alone.
    environment = {key: value for key, value in os.environ.items() if key != "LITEBERT_API_KEY"}
    with subprocess.Popen(
        [sys.executable, "-m", "litebert", *arguments],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment,
    ) as server:  # fmt: skip
        try:
            assert server.stderr is not None, "a pipe was asked for"
            url = _address(server.stderr) + path
            started = time.perf_counter()
            answer = _post(url, body)
            seconds = time.perf_counter() - started
            server.terminate()
            status = server.wait(_STOP_S)
        finally:
            server.kill()  # nothing happens if it has ended
    return {
        "command": f"litebert {' '.join(arguments)}",
        "path": path,
        "request": dict(body),
        "answer": answer,
        "milliseconds": round(1000 * seconds, 1),
        "exit_status": status,
    }


def _address(lines: Iterable[str]) -> str:
    """The address that the server prints once it answers."""
    said: list[str] = []
    for line in lines:
        if found := re.search(r"on (http://\S+)", line):
            return found.group(1)
        said.append(line.strip())
    raise LitebertError(f"the server did not start: {' '.join(said) or 'it said nothing'}")


def _post(url: str, body: Mapping[str, object]) -> object:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    opener = build_opener(ProxyHandler({}))  # a proxy knows nothing of this machine's loopback
    try:
        with opener.open(request, timeout=_ANSWER_S) as response:
            return json.load(response)
    except HTTPError as error:
        raise LitebertError(f"{url} answered {error.code}: {error.read().decode()}") from None
    except URLError as error:
        raise LitebertError(f"{url} cannot be reached: {error.reason}") from None
