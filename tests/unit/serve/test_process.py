"""The server as a process: without torch, drained by SIGTERM, deaf to clients that left."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from litebert.tasks.task_file import TaskFile

WITHOUT_TORCH = """
import sys

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "tensorboard"):
            raise ImportError(f"{name} is forbidden here")

sys.meta_path.insert(0, Forbid())
from litebert.cli import main
main(sys.argv[1:])
"""


@dataclass
class Running:
    process: subprocess.Popen[str]
    port: int

    def ask(self, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"content-type": "application/json"}
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, content, headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, json.loads(answer) if answer[:1] == b"{" else {}


@contextmanager
def running(
    *arguments: str, program: tuple[str, ...] = (sys.executable, "-c", WITHOUT_TORCH), stdin: int | None = None
) -> Iterator[Running]:
    command = [*program, "serve", "--port", "0", "--threads", "1", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdin=stdin)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        if "ulimit" in first:
            first = process.stderr.readline()
        assert "serving" in first, first + process.stderr.read()
        yield Running(process, int(first.rsplit(":", 1)[1]))
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def test_an_onnx_folder_is_served_without_torch(onnx_folder: Callable[..., Path]) -> None:
    folders = ("--model", str(onnx_folder("pretraining", int8=True)))
    with running(*folders, "--model", str(onnx_folder("classification"))) as server:
        status, answer = server.ask("/fill-mask", {"text": "the [MASK] of"})
        assert status == 200
        assert len(answer["results"][0]["masks"][0]) == 5
        assert server.ask("/classify", {"text": "a name"})[0] == 200
        assert server.ask("/v1/embeddings", {"input": "a"})[0] == 200
        assert server.ask("/layers", {"text": "a"})[0] == 200
        assert server.ask("/ready")[0] == 200


def test_commands_run_without_torch(onnx_folder: Callable[..., Path]) -> None:
    arguments = ["fill-mask", "--model", str(onnx_folder("pretraining")), "a [MASK]", "--json"]
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["masks"]


def test_export_needs_no_torch(tmp_path: Path, model_folder: Callable[..., Path]) -> None:
    arguments = ["export", "onnx", str(model_folder("span")), str(tmp_path / "out"), "--int8"]
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "integer products" in done.stdout


def test_sigterm_finishes_what_was_accepted(onnx_folder: Callable[..., Path]) -> None:
    folder = str(onnx_folder("pretraining"))
    limits = ("--max-documents", "500", "--max-queue-tokens", "1000000")
    with running("--model", folder, *limits) as server:
        body = {"input": ["the value of a name " * 12] * 500}
        answers: list[tuple[int, dict[str, Any]]] = []
        asking = [threading.Thread(target=lambda: answers.append(server.ask("/v1/embeddings", body))) for _ in range(3)]
        for thread in asking:
            thread.start()
        while server.ask("/info")[0] != 200 or active(server) < 3:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        for thread in asking:
            thread.join()
        assert [status for status, _ in answers] == [200] * 3
        assert all(len(answer["data"]) == 500 for _, answer in answers)
        assert server.process.wait() == 0


def active(server: Running) -> int:
    """Requests under way beside this one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    line = next(x for x in text.splitlines() if x.startswith("litebert_active_requests"))
    return int(float(line.split()[1])) - 1


def test_requests_of_clients_that_left_are_dropped(onnx_folder: Callable[..., Path]) -> None:
    folder = str(onnx_folder("pretraining"))
    limits = ("--max-documents", "5000", "--max-queue-tokens", "1000000")
    with running("--model", folder, *limits) as server:
        body = json.dumps({"input": ["the value of a name " * 12] * 3000})
        leaving = http.client.HTTPConnection("127.0.0.1", server.port)
        leaving.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})
        while active(server) < 1:
            time.sleep(0.01)
        leaving.close()
        while active(server) > 0:
            time.sleep(0.01)
        assert server.ask("/fill-mask", {"text": "a [MASK]"})[0] == 200
        server.process.send_signal(signal.SIGTERM)
        server.process.wait()
        assert server.process.stderr is not None
        lines = [json.loads(line) for line in server.process.stderr if line.startswith("{")]
        assert 499 in [line["status"] for line in lines if line["path"] == "/v1/embeddings"]


def test_headers_that_do_not_come_close_the_connection(onnx_folder: Callable[..., Path]) -> None:
    half = b"POST /fill-mask HTTP/1.1\r\nHost: here\r\n"
    whole = b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n"
    with running("--model", str(onnx_folder("pretraining")), "--timeout-s", "0.5") as server:
        address = ("127.0.0.1", server.port)
        with socket.create_connection(address) as silent, socket.create_connection(address) as slow:
            slow.sendall(half)
            assert silent.recv(100) == b""
            assert slow.recv(100) == b""
        with socket.create_connection(address) as second:
            second.sendall(whole)
            answer = b""
            while not answer.endswith(b"}"):
                answer += second.recv(1000)
            assert b" 200 " in answer
            second.sendall(half)  # uvicorn's own limit is for connections that say nothing at all
            assert second.recv(100) == b""
        with socket.create_connection(address) as dripping:
            try:
                while True:
                    dripping.sendall(b"x")
                    time.sleep(0.05)
            except OSError:
                pass  # closed though there was never half a second of silence
        assert server.ask("/fill-mask", {"text": "a [MASK]"})[0] == 200


def test_a_body_that_does_not_come_is_answered_with_408(onnx_folder: Callable[..., Path]) -> None:
    headers = b"POST /fill-mask HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n"
    with running("--model", str(onnx_folder("pretraining")), "--timeout-s", "0.5") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(headers + b'{"text": ')
            answer = b"".join(iter(lambda: slow.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive in time" in answer
        assert server.ask("/fill-mask", {"text": "a [MASK]"})[0] == 200


def test_more_connections_than_files_stop_nothing(onnx_folder: Callable[..., Path]) -> None:
    limited = ("bash", "-c", 'ulimit -n 200; exec "$0" "$@"', sys.executable, "-c", WITHOUT_TORCH)
    folder = str(onnx_folder("pretraining"))
    with running("--model", folder, program=limited) as server, ExitStack() as stack:
        assert server.ask("/info")[1]["limits"]["max_connections"] == 200 - 128
        for _ in range(250):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        for _ in range(5):
            assert server.ask("/health")[0] == 200


def test_neither_an_unread_log_nor_the_signals_of_others_stop_the_server(onnx_folder: Callable[..., Path]) -> None:
    with running("--model", str(onnx_folder("pretraining")), stdin=subprocess.DEVNULL) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            server.process.send_signal(number)
            for _ in range(200):  # lines of more than 300 characters, and a pipe holds 64 KB
                connection.request("GET", "/" + "x" * 300)
                assert connection.getresponse().read()
        connection.close()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait() == 0


def test_a_taken_port_and_a_missing_model_are_one_line_each(onnx_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = str(onnx_folder("pretraining"))
    with running("--model", folder) as server:
        for arguments, words in (
            (["--model", folder, "--port", str(server.port)], "cannot listen"),
            (["--model", str(tmp_path / "none"), "--port", "0"], "does not exist"),
        ):
            done = subprocess.run(
                [sys.executable, "-m", "litebert", "serve", *arguments],
                capture_output=True,
                text=True,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            )
            assert done.returncode == 2
            assert words in done.stderr
            assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("where", ["flag", "environment"])
def test_the_key_comes_from_the_flag_or_the_environment(
    onnx_folder: Callable[..., Path], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--model", str(onnx_folder("pretraining"))]
    if where == "flag":
        arguments += ["--api-key", "secret"]
    else:
        monkeypatch.setenv("LITEBERT_API_KEY", "secret")
    with running(*arguments) as server:
        assert server.ask("/info")[0] == 401
        assert server.ask("/health")[0] == 200


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with `pip install .[serve,onnx]` in it and nothing else; needs a package index."""
    import venv

    work = tmp_path_factory.mktemp("clean")
    repository = Path(__file__).parents[3]
    shutil.copytree(repository / "src", work / "project/src")
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        shutil.copyfile(repository / name, work / "project" / name)
    venv.create(work / "env", with_pip=True)
    python = work / "env/bin/python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
    installed = subprocess.run([*install, ".[serve,onnx]"], cwd=work / "project", capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"packages cannot be installed here: {installed.stderr[-300:]}")
    return python


@pytest.mark.slow
def test_a_clean_install_without_torch_serves(clean_python: Path, onnx_folder: Callable[..., Path]) -> None:
    missing = subprocess.run([clean_python, "-c", "import torch"], capture_output=True)
    assert missing.returncode != 0, "the environment has torch"
    folders = [str(onnx_folder(head, int8=True)) for head in ("pretraining", "classification")]
    models = [argument for folder in folders for argument in ("--model", folder)]
    with running(*models, program=(str(clean_python), "-m", "litebert")) as server:
        assert server.ask("/health") == (200, {"status": "ok"})
        status, info = server.ask("/info")
        assert status == 200
        assert [model["runtime"] for model in info["models"]] == ["onnx int8"] * 2
        status, answer = server.ask("/fill-mask", {"text": "the [MASK] of"})
        assert status == 200
        assert len(answer["results"][0]["masks"][0]) == 5
        assert server.ask("/classify", {"text": "a name"})[1]["results"][0]["label"]
        assert server.ask("/")[0] == 200


@pytest.mark.slow
def test_a_clean_install_without_torch_predicts(
    clean_python: Path, onnx_folder: Callable[..., Path], model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    def litebert(*arguments: object, sent: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(clean_python), "-m", "litebert", *map(str, arguments)]
        return subprocess.run(command, input=sent, capture_output=True, text=True)

    filled = litebert("fill-mask", "--model", onnx_folder("pretraining"), "a [MASK]", "--json")
    assert filled.returncode == 0, filled.stderr
    assert len(json.loads(filled.stdout)["masks"][0]) == 5
    labels = ("O", "B-NAME", "I-NAME")
    shutil.copytree(onnx_folder("classification"), tmp_path / "names")
    TaskFile("names", "classification", labels, max_length=32).write(tmp_path / "names")
    rows = '{"text": "a name", "id": 1}\n{"text": "the value", "id": 2}\n'
    for task, folder, key in (([], tmp_path / "names", "label"), (["embed"], onnx_folder("pretraining"), "embedding")):
        answered = litebert("predict", *task, "--model", folder, sent=rows)
        assert answered.returncode == 0, answered.stderr
        answers = [json.loads(line) for line in answered.stdout.splitlines()]
        assert [answer["id"] for answer in answers] == [1, 2]
        assert all(answer[key] for answer in answers)
    told = litebert("fill-mask", "--model", model_folder("pretraining"), "[MASK]")
    assert told.returncode == 2
    assert "litebert export onnx" in told.stderr
