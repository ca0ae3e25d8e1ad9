"""Pushing to the hub, tried against a stand-in of its HTTP interface on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from litebert.interop.hub import HubFacts, export_hub
from litebert.model.head_table import Head

TOKEN = "hf_standin"


class StandIn:
    """As much of the hub as an upload meets: making a repository, LFS objects, one commit."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.objects: dict[str, bytes] = {}
        self.repository: dict[str, object] = {}
        self.commits: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def answer(self, value: object, status: int = 200) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def body(self) -> bytes:
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def do_PUT(self) -> None:
                content = self.body()
                name = self.path.rpartition("/")[2]
                assert hashlib.sha256(content).hexdigest() == name
                hub.objects[name] = content
                self.answer({})

            def do_GET(self) -> None:
                self.answer({"error": "not found"}, 404)

            def do_POST(self) -> None:
                content = self.body()
                if self.headers.get("authorization") != f"Bearer {TOKEN}":
                    self.answer({"error": "Invalid username or password."}, 401)
                elif self.path == "/api/repos/create":
                    hub.repository = json.loads(content)
                    self.answer({"url": f"{hub.address}/me/tiny", "id": "me/tiny"})
                elif "/preupload/" in self.path:
                    rows = [
                        {"path": row["path"], "shouldIgnore": False,
                         "uploadMode": "lfs" if "model" in row["path"] else "regular"}
                        for row in json.loads(content)["files"]
                    ]  # fmt: skip
                    self.answer({"files": rows})
                elif self.path.endswith("/info/lfs/objects/batch"):
                    rows = [
                        {**row, "actions": {"upload": {"href": f"{hub.address}/lfs/{row['oid']}"}}}
                        for row in json.loads(content)["objects"]
                    ]
                    self.answer({"transfer": "basic", "objects": rows})
                elif "/commit/" in self.path:
                    hub.commit([json.loads(line) for line in content.splitlines()])
                    self.answer({"commitUrl": f"{hub.address}/me/tiny/commit/1", "commitOid": "1"})
                else:
                    self.answer({})

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def commit(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.commits.append(value["summary"])
            elif line["key"] == "file":
                self.files[value["path"]] = base64.b64decode(value["content"])
            else:
                self.files[value["path"]] = self.objects[value["oid"]]


@pytest.fixture
def hub() -> Iterator[StandIn]:
    standin = StandIn()
    yield standin
    standin.server.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model_folder: Callable[[Head], Path]) -> Path:
    out = tmp_path_factory.mktemp("hub") / "tiny"
    export_hub(model_folder("encoder"), out, HubFacts(("en",), "apache-2.0"))
    return out


def push(hub: StandIn, place: Path, *arguments: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that knows no hub but the stand-in."""
    environment = {
        **os.environ, "HF_ENDPOINT": hub.address, "HF_TOKEN": token, "HF_HOME": str(place),
        "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    command = [sys.executable, "-m", "litebert", "push", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_every_file_arrives_in_one_commit(hub: StandIn, folder: Path, tmp_path: Path) -> None:
    answer = push(hub, tmp_path, str(folder), "me/tiny", "--private")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == f"{hub.address}/me/tiny"
    assert True in (hub.repository.get("private"), hub.repository.get("visibility") == "private")
    sent = {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}  # fmt: skip
    assert hub.files == sent
    assert hub.commits == ["Exported with litebert"]


def test_what_cannot_be_pushed_is_one_line(hub: StandIn, folder: Path, tmp_path: Path) -> None:
    unlicensed = tmp_path / "unlicensed"
    shutil.copytree(folder, unlicensed)
    card = (folder / "README.md").read_text(encoding="utf-8")
    (unlicensed / "README.md").write_text(card.replace("license: apache-2.0\n", ""))
    cases = {
        "is not a folder of `litebert export hub`": push(hub, tmp_path, str(tmp_path), "me/tiny"),
        "names no licence; export it with --licence": push(hub, tmp_path, str(unlicensed), "me/tiny"),
        "log in with `hf auth login`": push(hub, tmp_path, str(folder), "me/tiny", token="wrong"),
        "cannot be pushed to": push(hub, tmp_path, str(folder), "a name//of nothing"),
    }
    for words, answer in cases.items():
        assert answer.returncode == 2, words
        (line,) = [line for line in answer.stderr.splitlines() if "error" in line]
        assert words in line
    assert not hub.files
