"""A model for the page: cut to what is asked, described, served; what cannot run there is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from starlette.testclient import TestClient

from litebert.cli import main
from litebert.common.errors import ConfigError, InputError
from litebert.interop.hub import export_hub
from litebert.model.head_table import Head
from litebert.serve import page
from litebert.serve.app import create_app
from litebert.serve.config import ServeConfig
from litebert.serve.page import PAGE_FILES, export_page, write_page_model
from litebert.serve.service import Service

Folder = Callable[..., Path]
OUTPUTS: dict[Head, tuple[list[str], list[str]]] = {
    "encoder": (["last_hidden_state"], ["embeddings"]),
    "pretraining": (
        ["masked_logits", "sop_logits", "last_hidden_state"], ["fill-mask", "order", "embeddings"]
    ),
    "masked_lm": (["masked_logits", "last_hidden_state"], ["fill-mask", "embeddings"]),
    "classification": (["last_hidden_state", "logits"], ["embeddings", "classify"]),
    "regression": (["last_hidden_state", "logits"], ["embeddings", "classify"]),
}  # fmt: skip


@pytest.mark.parametrize("head", OUTPUTS)
def test_the_graph_gives_what_the_page_asks(tmp_path: Path, onnx_folder: Folder, head: Head) -> None:
    write_page_model(onnx_folder(head), tmp_path, "tiny")
    outputs, can = OUTPUTS[head]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [output.name for output in session.get_outputs()] == outputs
    described = json.loads((tmp_path / "model.json").read_text())
    assert described["can"] == can
    assert {file.name for file in tmp_path.iterdir()} == set(PAGE_FILES)
    assert described["bytes"] == sum((tmp_path / name).stat().st_size for name in PAGE_FILES[1:])
    assert described["hidden_size"] == 32
    assert described["labels"] == (["O", "B-NAME", "I-NAME"] if head == "classification" else [])


def test_int8_is_taken_where_it_is_there_and_made_where_it_is_not(
    tmp_path: Path, model_folder: Folder, onnx_folder: Folder
) -> None:
    export_hub(model_folder("encoder"), tmp_path / "hub")
    sources = {"weights": model_folder("encoder"), "hub": tmp_path / "hub",
               "float32": onnx_folder("encoder")}  # fmt: skip
    found = {}
    for name, source in sources.items():
        (tmp_path / name / "page").mkdir(parents=True)
        write_page_model(source, tmp_path / name / "page", name)
        found[name] = json.loads((tmp_path / name / "page" / "model.json").read_text())["runtime"]
    assert found == {"weights": "onnx int8", "hub": "onnx int8", "float32": "onnx float32"}


def test_a_head_that_the_page_has_no_code_for_is_refused(tmp_path: Path, onnx_folder: Folder) -> None:
    with pytest.raises(InputError, match="is a span model; a page runs those that fill masks"):
        write_page_model(onnx_folder("span"), tmp_path, "tiny")


def test_a_page_without_the_runtime_is_not_written(
    tmp_path: Path, onnx_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "RUNTIME", tmp_path / "nothing")
    with pytest.raises(ConfigError, match="has no onnxruntime-web, which the page needs; run `make"):
        export_page(onnx_folder("encoder"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_page_is_one_folder_without_the_server(
    tmp_path: Path, onnx_folder: Folder, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "ort.wasm.gz").touch()
    monkeypatch.setattr(page, "RUNTIME", tmp_path / "runtime")
    main(["export", "page", str(onnx_folder("encoder")), str(tmp_path / "out"), "--json"])
    files = json.loads(capsys.readouterr().out)["files"]
    assert {"index.html", "static/local.js", "model/model.onnx", "model/model.json"} <= set(files)
    assert not any("docs" in name for name in files)
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert 'data-page="static"' in text
    assert 'src="/' not in text, "the page may lie below any path"
    for script in (tmp_path / "out" / "static").glob("*.js"):
        assert 'from "/' not in script.read_text(encoding="utf-8"), script


@pytest.fixture(scope="module")
def client(onnx_folder: Folder) -> Iterator[TestClient]:
    folders = (onnx_folder("pretraining"), onnx_folder("span"))
    config = ServeConfig(model=folders, threads=1)
    with TestClient(create_app(Service.load(config), config)) as client:
        yield client


def test_the_server_gives_its_page_the_files_of_a_model(client: TestClient, onnx_folder: Folder) -> None:
    for name in PAGE_FILES:
        answer = client.get(f"/here/pretraining/{name}")
        assert answer.status_code == 200, name
        assert answer.content
    graph = client.get("/here/pretraining/model.onnx").content
    feeds = {name: np.array([[2, 4, 3]]) for name in ("input_ids",)}
    feeds |= {"attention_mask": np.ones((1, 3), np.int64), "token_type_ids": np.zeros((1, 3), int)}
    own = onnxruntime.InferenceSession(onnx_folder("pretraining") / "model.onnx")
    sent = onnxruntime.InferenceSession(graph)
    expected, found = (one.run(["masked_logits"], feeds)[0] for one in (own, sent))
    assert np.abs(expected - found).max() < 1e-5


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/here/pretraining/secret.txt", 404, "a page loads model.json"),
        ("/here/other/model.onnx", 404, "no model 'other' is loaded"),
        ("/here/span/model.onnx", 422, "a page runs those that fill masks"),
        ("/here/pretraining/..%2f..%2fmodel.json", 404, ""),
    ],
)
def test_other_files_and_models_are_not_given(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert words in answer.text
