"""Random bodies: the server answers every one of them with less than 500, and goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from litebert.serve.app import create_app
from litebert.serve.config import ServeConfig
from litebert.serve.service import Service

HEADS = ("pretraining", "classification", "span", "multiple_choice", "token_classification", "regression")

FIELDS = {
    "/fill-mask": ("text", "top_k", "model"),
    "/order": ("first", "second", "model"),
    "/classify": ("text", "text_pair"),
    "/answer": ("question", "context", "may_be_unanswerable"),
    "/multiple-choice": ("text", "question", "options"),
    "/tag": ("text", "words"),
    "/tokenize": ("text",),
    "/layers": ("text",),
    "/rerank": ("query", "texts", "raw_scores", "return_text"),
    "/v1/embeddings": ("input", "encoding_format", "pooling", "user", "dimensions"),
}

STRINGS = (
    "the value of [MASK]",
    "",
    " ",
    "\x00",
    "\ud800",
    "\udcff[MASK]",
    "é\u0301\u200d\u202e",
    "▁[MASK]▁",
    "[CLS][SEP][MASK]<pad><unk>",
    "\ue000[MASK]\ue000",
    "日本語のテキスト [MASK]",
    "🏳️‍🌈" * 30,
    "a" * 700,
    "1,2,3, 4,",
    "\n\t\r",
    "NaN",
    "_",
)


@pytest.fixture(scope="module")
def client(onnx_folder: Callable[..., Path]) -> Iterator[TestClient]:
    config = ServeConfig(model=tuple(onnx_folder(head) for head in HEADS), threads=1, max_characters=2000)
    # What the application does not catch becomes an answer of 500 here, not an exception.
    with TestClient(create_app(Service.load(config), config), raise_server_exceptions=False) as client:
        yield client


def random_value(generator: random.Random, depth: int = 0) -> object:
    choice = generator.randrange(9 if depth < 3 else 6)
    if choice <= 2:
        return generator.choice(STRINGS)
    if choice == 3:
        return "".join(chr(generator.randrange(1, 0x3000)) for _ in range(generator.randrange(40)))
    if choice == 4:
        return generator.choice([0, -1, 5, 10**30, 0.5, float("nan"), float("inf"), True, None])
    if choice == 5:
        return generator.choice(["float", "base64", "mean", "cls", "pretraining", "span"])
    if choice == 6:
        return {str(i): random_value(generator, depth + 1) for i in range(generator.randrange(3))}
    return [random_value(generator, depth + 1) for _ in range(generator.randrange(5))]


def random_body(generator: random.Random, path: str) -> bytes:
    kind = generator.randrange(10)
    if kind == 0:
        return generator.randbytes(generator.randrange(60))
    if kind == 1:
        return b"[" * generator.randrange(3000)
    body = {name: random_value(generator) for name in FIELDS[path] if generator.random() < 0.9}
    text = json.dumps(body if kind > 2 else random_value(generator))
    if kind == 3:
        text = text[: generator.randrange(len(text) + 1)]
    return text.encode("utf-8", "surrogatepass")


def send(client: TestClient, count: int, seed: int) -> dict[int, int]:
    generator = random.Random(seed)
    statuses: dict[int, int] = {}
    for _ in range(count):
        path = generator.choice(list(FIELDS))
        body = random_body(generator, path)
        headers = {"content-type": generator.choice(["application/json"] * 9 + ["text/plain"])}
        answer = client.post(path, content=body, headers=headers)
        assert answer.status_code < 500, (path, body)
        if answer.status_code != 200:
            assert answer.json()["error"]["message"], (path, body)
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
    assert client.post("/fill-mask", json={"text": "a [MASK]"}).status_code == 200
    return statuses


def test_random_bodies(client: TestClient) -> None:
    statuses = send(client, 600, seed=1)
    assert statuses[200] > 20, "nothing got through, so nothing was tested"
    assert statuses[422] > 100


@pytest.mark.slow
def test_ten_thousand_random_bodies(client: TestClient) -> None:
    statuses = send(client, 10_000, seed=2)
    assert statuses[200] > 300
