"""Embeddings, models and reranking in the shapes of other servers, asked by published clients."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from starlette.testclient import TestClient

from litebert.common.errors import ConfigError
from litebert.serve.app import create_app
from litebert.serve.config import ServeConfig
from litebert.serve.service import Service


@pytest.fixture(scope="module")
def config(onnx_folder: Callable[..., Path]) -> ServeConfig:
    return ServeConfig(model=(onnx_folder("pretraining"),), threads=1, max_queue_tokens=1_000_000)


@pytest.fixture(scope="module")
def service(config: ServeConfig) -> Service:
    return Service.load(config)


@pytest.fixture(scope="module")
def client(service: Service, config: ServeConfig) -> Iterator[TestClient]:
    with TestClient(create_app(service, config)) as client:
        yield client


def embed(client: TestClient, **body: object) -> np.ndarray:
    answer = client.post("/v1/embeddings", json=body)
    assert answer.status_code == 200, answer.text
    return np.array([item["embedding"] for item in answer.json()["data"]])


def test_vectors_have_length_1_unless_told(client: TestClient, service: Service) -> None:
    texts = ["a name", "the value of it"]
    plain = service.models[0].predictor.embed(texts)
    assert np.allclose(embed(client, input=texts, normalize=False), plain, atol=1e-5)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert not np.allclose(lengths, 1)
    assert np.allclose(embed(client, input=texts), plain / lengths, atol=1e-6)


def test_dimensions_are_cut_and_scaled_anew(client: TestClient, service: Service) -> None:
    whole = embed(client, input="a name", normalize=False)
    size = whole.shape[1]
    cut = embed(client, input="a name", dimensions=size - 3)
    assert np.allclose(cut, whole[:, :-3] / np.linalg.norm(whole[:, :-3]), atol=1e-6)
    assert np.allclose(embed(client, input="a name", dimensions=size), embed(client, input="a name"))
    for dimensions, words in ((size + 1, f"have {size}"), (0, "dimensions: "), (-1, "dimensions: ")):
        refused = client.post("/v1/embeddings", json={"input": "a", "dimensions": dimensions})
        assert refused.status_code == 422
        assert words in refused.json()["error"]["message"]


def test_as_many_inputs_as_openai_takes(client: TestClient) -> None:
    texts = ["the value of a name"[: 1 + index % 19] for index in range(2048)]
    answer = client.post("/v1/embeddings", json={"input": texts}).json()
    assert [item["index"] for item in answer["data"]] == list(range(2048))
    assert answer["data"][0]["object"] == "embedding"
    refused = client.post("/v1/embeddings", json={"input": [*texts, "one more"]})
    assert refused.status_code == 422
    assert "2,049 texts, the limit is 2,048" in refused.json()["error"]["message"]


def test_empty_texts_have_a_vector(client: TestClient) -> None:
    vectors = embed(client, input=["", "  ", "a"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert np.allclose(vectors[0], vectors[1], atol=1e-6)
    assert np.allclose(embed(client, input="")[0], vectors[0], atol=1e-5)
    assert client.post("/v1/embeddings", json={"input": []}).status_code == 422


def test_the_only_model_goes_by_any_name(
    client: TestClient, service: Service, config: ServeConfig, onnx_folder: Callable[..., Path]
) -> None:
    body = {"input": "a", "model": "text-embedding-3-small"}
    answer = client.post("/v1/embeddings", json=body).json()
    assert answer["model"] == service.models[0].name
    assert client.post("/tokenize", json={"text": "a", "model": "gpt"}).status_code == 404
    second = Service.load(replace(config, model=(onnx_folder("classification"),)))
    both = Service((*service.models, *second.models))
    with TestClient(create_app(both, config)) as of_two:
        refused = of_two.post("/v1/embeddings", json=body)
        assert refused.status_code == 404
        listed = of_two.get("/v1/models").json()
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == [m.name for m in both.models]
        one = of_two.get(f"/v1/models/{both.models[1].name}").json()
        assert one == listed["data"][1]
        assert of_two.get("/v1/models/gpt").status_code == 404


def test_token_ids_are_refused_unless_their_vocabulary_is_known(
    client: TestClient, service: Service, config: ServeConfig
) -> None:
    tokenizer = service.models[0].predictor.tokenizer
    ids = tokenizer.encode("the value of a name")
    for given in (ids, [ids, ids]):
        refused = client.post("/v1/embeddings", json={"input": given})
        assert refused.status_code == 422
        assert "check_embedding_ctx_length=False" in refused.json()["error"]["message"]
    with TestClient(create_app(service, replace(config, token_arrays="model"))) as told:
        expected = embed(told, input="the value of a name")
        assert np.allclose(embed(told, input=[ids, ids]), [expected[0]] * 2, atol=1e-5)
        assert np.allclose(embed(told, input=ids), expected, atol=1e-5)
        for wrong in (tokenizer.vocab_size, 10**30, -1):
            assert told.post("/v1/embeddings", json={"input": [wrong]}).status_code == 422


def test_a_vocabulary_that_cannot_be_loaded_is_known_at_the_start(
    service: Service, config: ServeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiktoken = pytest.importorskip("tiktoken")

    def fail(name: str) -> object:
        raise ConnectionError("no network")

    monkeypatch.setattr(tiktoken, "get_encoding", fail)
    with pytest.raises(ConfigError, match="TIKTOKEN_CACHE_DIR"):
        create_app(service, replace(config, token_arrays="cl100k_base"))
    monkeypatch.setitem(__import__("sys").modules, "tiktoken", None)
    with pytest.raises(ConfigError, match="pip install tiktoken"):
        create_app(service, replace(config, token_arrays="cl100k_base"))


def test_rerank_has_the_shape_of_tei(onnx_folder: Callable[..., Path]) -> None:
    config = ServeConfig(model=(onnx_folder("regression"),), threads=1)
    service = Service.load(config)
    texts = ["a name", "the value", "of it all", "function"]
    expected = [
        float(str(answer["value"]))
        for answer in service.models[0].predictor.predict([{"text": "a query", "text_pair": text} for text in texts])
    ]
    with TestClient(create_app(service, config)) as client:
        body = {"query": "a query", "texts": texts}
        raw = client.post("/rerank", json={**body, "raw_scores": True, "return_text": True}).json()
        ranks = client.post("/rerank", json={**body, "truncate": True}).json()
        assert "rerank" in client.get("/info").json()["models"][0]["can"]
        many = client.post("/rerank", json={**body, "texts": ["a"] * 2049})
    assert [rank["index"] for rank in raw] == list(np.argsort(expected)[::-1])
    for rank, same in zip(raw, ranks, strict=True):
        assert rank["score"] == pytest.approx(expected[rank["index"]], abs=1e-5)
        assert rank["text"] == texts[rank["index"]]
        assert same.keys() == {"index", "score"}
        assert same["index"] == rank["index"]
        assert same["score"] == pytest.approx(1 / (1 + math.exp(-rank["score"])), abs=1e-6)
    assert many.status_code == 422


def test_only_a_head_with_one_score_reranks(client: TestClient) -> None:
    refused = client.post("/rerank", json={"query": "a", "texts": ["b"]})
    assert refused.status_code == 409


def test_answers_and_log_carry_the_request_id(service: Service, config: ServeConfig) -> None:
    import io

    stream = io.StringIO()
    with TestClient(create_app(service, config, stream)) as client:
        given = client.get("/health", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"]
        made = client.post("/tokenize", json={"text": ""}).headers["x-request-id"]
        refused = [
            client.get("/health", headers={"X-Request-ID": sent}).headers["x-request-id"]
            for sent in ("x" * 65, "a b", 'a"}')
        ]
    logged = [json.loads(line)["id"] for line in stream.getvalue().splitlines()]
    assert logged == [given, made, *refused]
    assert given == "abc-1"
    assert all(len(one) == 16 for one in (made, *refused))
    assert len(set(logged)) == 5


@pytest.fixture(scope="module")
def address(service: Service, config: ServeConfig) -> Iterator[Callable[..., str]]:
    """Serve on loopback with settings; returns the address."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(**settings: object) -> str:
        app = create_app(service, replace(config, **settings))  # type: ignore[arg-type]
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        running.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


def test_the_client_of_openai_with_its_defaults(address: Callable[..., str], service: Service) -> None:
    openai = pytest.importorskip("openai", reason="needs `pip install litebert[clients]`")
    client = openai.OpenAI(base_url=address(api_key="secret"), api_key="secret")
    texts = ["a name", "the value of it", ""]
    answer = client.embeddings.create(input=texts, model="text-embedding-3-small", dimensions=8)
    vectors = np.array([item.embedding for item in answer.data])
    assert vectors.shape == (3, 8)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert answer.usage.total_tokens > 4
    assert answer._request_id
    assert [model.id for model in client.models.list()] == [service.models[0].name]
    assert client.models.retrieve(service.models[0].name).object == "model"
    with pytest.raises(openai.UnprocessableEntityError, match="vocabulary"):
        client.embeddings.create(input=[[1, 2]], model="any")
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=client.base_url, api_key="other").models.list()


def test_langchain_with_its_defaults(
    address: Callable[..., str], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends ids of OpenAI's vocabulary; a stand-in of bytes, as the real one is downloaded."""
    reason = "needs `pip install litebert[clients]`"
    langchain = pytest.importorskip("langchain_openai", reason=reason)
    tiktoken = pytest.importorskip("tiktoken", reason=reason)
    letters = tiktoken.Encoding(
        "cl100k_base",
        pat_str=r"\S+|\s+",
        mergeable_ranks={bytes([index]): index for index in range(256)},
        special_tokens={},
    )
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: letters)
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: letters)
    texts = ["a name", "the value of it", "Überall"]
    expected = service.models[0].predictor.embed(texts)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    told = address(token_arrays="cl100k_base")
    client = langchain.OpenAIEmbeddings(base_url=told, api_key="none")
    assert np.allclose(client.embed_documents(texts), expected, atol=1e-5)
    assert np.allclose(client.embed_query(texts[1]), expected[1], atol=1e-5)
    assert len(client.embed_query("")) == expected.shape[1]
    untold = langchain.OpenAIEmbeddings(
        base_url=address(), api_key="none", check_embedding_ctx_length=False, dimensions=4
    )
    assert np.shape(untold.embed_documents(texts)) == (3, 4)


def test_base64_is_little_endian_float32(client: TestClient) -> None:
    body = {"input": "a name", "encoding_format": "base64"}
    coded = client.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]
    vector = np.frombuffer(base64.b64decode(coded), "<f4")
    assert np.allclose(vector, embed(client, input="a name")[0], atol=1e-6)
