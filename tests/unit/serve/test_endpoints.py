"""The HTTP interface: every endpoint, every limit, and errors that people can read."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from litebert.common.errors import ConfigError, InputError
from litebert.predict.predictor import Predictor
from litebert.serve.app import KEY_VARIABLE, create_app, serve
from litebert.serve.config import ServeConfig
from litebert.serve.connections import Server
from litebert.serve.service import Service

HEADS = (
    "pretraining", "classification", "squad2", "multiple_choice", "token_classification",
    "regression",
)  # fmt: skip


@pytest.fixture(scope="module")
def config(onnx_folder: Callable[..., Path]) -> ServeConfig:
    return ServeConfig(model=tuple(onnx_folder(head) for head in HEADS), threads=1)


@pytest.fixture(scope="module")
def service(config: ServeConfig) -> Service:
    return Service.load(config)


@pytest.fixture(scope="module")
def client(service: Service, config: ServeConfig) -> Iterator[TestClient]:
    with TestClient(create_app(service, config)) as client:
        yield client


def test_fill_mask(client: TestClient, service: Service) -> None:
    texts = ["the [MASK] of", "a [MASK] b [MASK]"]
    answer = client.post("/fill-mask", json={"text": texts, "top_k": 3}).json()["results"]
    expected = service.models[0].predictor.fill_mask(texts, top_k=3)
    assert [result["text"] for result in answer] == [filled.text for filled in expected]
    assert [len(result["masks"]) for result in answer] == [1, 2]
    assert len(answer[0]["masks"][0]) == 3
    single = client.post("/fill-mask", json={"text": texts[0], "top_k": 3}).json()["results"]
    assert single[0]["text"] == answer[0]["text"]


def test_order(client: TestClient) -> None:
    answer = client.post("/order", json={"first": "a name", "second": "the value"}).json()
    assert answer["in_order"] + answer["swapped"] == pytest.approx(1, abs=1e-6)


def test_classify(client: TestClient) -> None:
    body = {"text": ["a name", "of"], "text_pair": ["b", "c"]}
    results = client.post("/classify", json=body).json()["results"]
    assert len(results) == 2
    assert sum(results[0]["scores"].values()) == pytest.approx(1)
    assert results[0]["label"] == max(results[0]["scores"], key=results[0]["scores"].get)
    assert "value" not in results[0]


def test_answer(client: TestClient) -> None:
    context = "Ann gave the value to Bo. " * 20
    body = {"question": "who?", "context": context, "may_be_unanswerable": False}
    answer = client.post("/answer", json=body).json()
    assert answer["answer"] == answer["best"][0]["text"]
    for span in answer["best"]:
        assert context[span["start"] : span["end"]] == span["text"]
    body["may_be_unanswerable"] = True
    assert 0 <= client.post("/answer", json=body).json()["no_answer"] <= 1


def test_multiple_choice_and_tags(client: TestClient) -> None:
    body = {"text": "a name", "question": "which?", "options": ["x", "y z", "w"]}
    answer = client.post("/multiple-choice", json=body).json()
    assert len(answer["scores"]) == 3
    assert answer["option"] == body["options"][answer["choice"]]
    tags = client.post("/tag", json={"text": "Ann Lee sat"}).json()
    assert len(tags["tags"]) == 3
    assert client.post("/tag", json={"words": ["Ann", "Lee", "sat"]}).json() == tags
    text = "Is it Ann Lee, or  the value (of a name)?"
    tags = client.post("/tag", json={"text": text}).json()
    assert tags["words"][-3:] == ["name", ")", "?"]
    assert all(text[one["start"] : one["end"]] == one["text"] for one in tags["entities"])


def test_embeddings_have_openais_shape(client: TestClient, service: Service) -> None:
    body = {"input": ["a name", "the value of it"], "model": service.models[0].name}
    answer = client.post("/v1/embeddings", json=body).json()
    assert answer["object"] == "list"
    assert [item["index"] for item in answer["data"]] == [0, 1]
    expected = service.models[0].predictor.embed(body["input"])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose([item["embedding"] for item in answer["data"]], expected, atol=1e-5)
    assert answer["usage"]["prompt_tokens"] >= 4
    coded = client.post("/v1/embeddings", json={**body, "encoding_format": "base64"}).json()
    vector = np.frombuffer(base64.b64decode(coded["data"][1]["embedding"]), "<f4")
    assert np.allclose(vector, expected[1], atol=1e-5)


def test_tokenize_and_layers(client: TestClient) -> None:
    answer = client.post("/tokenize", json={"text": "The value"}).json()
    assert len(answer["pieces"]) == len(answer["ids"]) > 0
    assert len(client.post("/layers", json={"text": "a name"}).json()["distance"]) == 3


def test_info_says_what_each_model_can(client: TestClient) -> None:
    info = client.get("/info").json()
    can = {model["head"]: model["can"] for model in info["models"]}
    assert "fill-mask" in can["pretraining"]
    assert "fill-mask" not in can["squad2"]
    assert "answer" in can["squad2"]
    assert all(m["num_parameters"] < m["num_parameters_bert"] for m in info["models"])


def test_every_request_example_is_answered(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    tried = 0
    for path, operations in document["paths"].items():
        if "post" not in operations:
            continue
        content = operations["post"]["requestBody"]["content"]["application/json"]
        fields = schemas[content["schema"]["$ref"].rsplit("/", 1)[1]]["properties"]
        body = {name: field["examples"][0] for name, field in fields.items() if "examples" in field}
        assert body, f"{path} has no example"
        answer = client.post(path, json=body)
        assert answer.status_code == 200, (path, answer.text)
        tried += 1
    assert tried == 10


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/fill-mask", {"text": "none"}, 422, "no [MASK]"),
        ("/fill-mask", {}, 422, "text: Field required"),
        ("/fill-mask", {"text": ""}, 422, "text: the text is empty"),
        ("/fill-mask", {"text": []}, 422, "text: the list is empty"),
        ("/fill-mask", {"text": ["[MASK]", ""]}, 422, "text.1: the text is empty"),
        ("/fill-mask", {"text": ["[MASK]", 3]}, 422, "text.1: Input should be a valid string"),
        ("/fill-mask", {"text": 3}, 422, "text: Input should be a valid string"),
        ("/fill-mask", {"text": [3] * 60_000}, 422, "text.0: Input should be a valid string"),
        ("/fill-mask", {"text": [3] * 499_000}, 422, "more than 65,536 values"),
        ("/fill-mask", {"text": " " * 50_000}, 422, "no [MASK]"),
        ("/tokenize", {"text": "\ufdfa" * 40_000}, 422, "200,000 characters"),
        ("/v1/embeddings", {"input": ["\ufdfa" * 11_000] * 21}, 422, "4,000,000 for all"),
        ("/multiple-choice", {"text": "a", "options": ["b", ""]}, 422, "options.1: the text is"),
        ("/fill-mask", {"text": "[MASK]", "top_k": 0}, 422, "top_k:"),
        ("/fill-mask", {"text": "[MASK]", "topk": 3}, 422, "topk:"),
        ("/fill-mask", {"text": "[MASK] " * 200}, 422, "tokens"),
        ("/fill-mask", {"text": ["[MASK]"] * 100}, 422, "the limit is 64"),
        ("/fill-mask", {"text": ["[MASK] " * 43] * 3}, 422, "129 [MASK], the limit is 128"),
        ("/fill-mask", {"text": "[MASK]" + "x" * 60_000}, 422, "characters"),
        ("/fill-mask", {"text": "[MASK]", "model": "nobody"}, 404, "no model 'nobody'"),
        ("/answer", {"question": "who?", "context": "   "}, 422, "empty"),
        ("/answer", {"question": "a", "context": "b", "may_be_unanswerable": 0.0}, 422, "boolean"),
        ("/order", {"first": "a", "second": " "}, 422, "empty"),
        ("/classify", {"text": ["a", "b"], "text_pair": ["c"]}, 422, "2 entries"),
        ("/multiple-choice", {"text": "a", "options": ["one"]}, 422, "options:"),
        ("/tag", {}, 422, "either text or words"),
        ("/nowhere", {}, 404, "Not Found"),
    ],
)
def test_errors_say_what_is_wrong(client: TestClient, path: str, body: object, status: int, words: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_texts_that_double_when_normalized_are_no_attack(client: TestClient) -> None:
    for text in ("한국어 문장을 씁니다. " * 1200, "é\u0301" * 12_000, "\ufdfa" * 3000):
        assert client.post("/tokenize", json={"text": text}).status_code == 200


def test_half_a_surrogate_pair_is_not_json(client: TestClient) -> None:
    headers = {"content-type": "application/json"}
    answer = client.post("/tokenize", content=b'{"text": "\\ud800"}', headers=headers)
    assert answer.status_code == 400
    assert "hex escape" in answer.json()["error"]["message"]


def test_the_document_says_what_metrics_are_and_where_the_key_is_needed(service: Service, config: ServeConfig) -> None:
    for key in (None, "secret"):
        with TestClient(create_app(service, replace(config, api_key=key))) as client:
            document = client.get("/openapi.json").json()
        paths = document["paths"]
        assert list(paths["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]
        schemes = document["components"].get("securitySchemes", {})
        assert [scheme["scheme"] for scheme in schemes.values()] == (["bearer"] if key else [])
        guarded = {
            path
            for path, operations in paths.items()
            if any("security" in operation for operation in operations.values())
        }
        assert guarded == (paths.keys() - {"/health", "/ready"} if key else set())


def test_as_many_masks_as_allowed_are_filled(client: TestClient) -> None:
    body = {"text": ["[MASK] " * 32] * 4, "top_k": 100}
    results = client.post("/fill-mask", json=body).json()["results"]
    assert [len(result["masks"]) for result in results] == [32] * 4
    assert client.get("/info").json()["limits"]["max_masks"] == 128


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/order", {"first": "a", "second": "b"}),
        ("/answer", {"question": "who?", "context": "Ann sat."}),
        ("/multiple-choice", {"text": "a", "question": "which?", "options": ["b", "c", "d"]}),
    ],
)
def test_the_fields_of_one_question_are_no_list_of_texts(
    path: str, body: dict[str, object], service: Service, config: ServeConfig
) -> None:
    single = replace(config, max_inputs=1, max_characters=20)
    with TestClient(create_app(service, single)) as client:
        assert client.post(path, json=body).status_code == 200
        assert client.post("/fill-mask", json={"text": ["[MASK]"] * 2}).status_code == 422
        for name, value in body.items():
            long = "x" * 21 if isinstance(value, str) else ["a", "x" * 21]
            answer = client.post(path, json={**body, name: long})
            assert answer.status_code == 422
            assert "21 characters" in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[1]", b'"x"', b"null", b'{"text": NaN}'])
def test_bodies_that_are_no_request(client: TestClient, body: bytes) -> None:
    answer = client.post("/fill-mask", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]


def test_a_kind_of_question_that_no_model_answers(service: Service, config: ServeConfig) -> None:
    only_words = Service(service.models[:1])
    with TestClient(create_app(only_words, config)) as client:
        answer = client.post("/classify", json={"text": "a"})
    assert answer.status_code == 409
    assert "--model" in answer.json()["error"]["message"]


def test_a_large_body_is_refused(service: Service, config: ServeConfig) -> None:
    small = replace(config, max_body_bytes=200)
    with TestClient(create_app(service, small)) as client:
        answer = client.post("/tokenize", json={"text": "x" * 300})
        assert answer.status_code == 413
        chunks = (b'{"text": "', b"x" * 150, b"x" * 150, b'"}')
        assert client.post("/tokenize", content=iter(chunks)).status_code == 413
        assert client.post("/tokenize", json={"text": "x"}).status_code == 200


def test_the_key_is_needed_where_something_is_at_stake(service: Service, config: ServeConfig) -> None:
    with TestClient(create_app(service, replace(config, api_key="secret"))) as client:
        for path in ("/health", "/ready", "/", "/docs", "/static/style.css"):
            assert client.get(path).status_code == 200, path
        for path in ("/info", "/metrics"):
            assert client.get(path).status_code == 401
        wrong = client.post("/tokenize", json={"text": "x"}, headers={"Authorization": "Bearer wrong"})
        assert wrong.status_code == 401
        assert wrong.headers["WWW-Authenticate"] == "Bearer"
        right = client.post("/tokenize", json={"text": "x"}, headers={"Authorization": "Bearer secret"})
        assert right.status_code == 200


@pytest.mark.parametrize("configured", ["secret", "secret\n", " secret\r\n"])
def test_the_key_is_read_as_people_write_it(configured: str, service: Service, config: ServeConfig) -> None:
    with TestClient(create_app(service, replace(config, api_key=configured))) as client:
        for sent, status in (
            ("Bearer secret", 200),
            ("bearer secret", 200),
            ("BEARER secret", 200),
            ("Bearer SECRET", 401),
            ("Basic secret", 401),
            ("secret", 401),
            ("Bearer", 401),
            ("Bearer ", 401),
        ):
            answer = client.get("/info", headers={"Authorization": sent})
            assert answer.status_code == status, sent


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_key_does_not_leave_the_server_open(
    blank: str, config: ServeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="the API key is blank"):
        replace(config, api_key=blank)
    monkeypatch.setenv(KEY_VARIABLE, blank)
    with pytest.raises(ConfigError, match=KEY_VARIABLE):
        serve(replace(config, port=0))


def test_ready_says_503_from_the_signal_on(service: Service, config: ServeConfig) -> None:
    import signal

    app = create_app(service, config)
    with TestClient(app) as client:
        assert client.get("/ready").status_code == 200
        server = Server(app, config)
        server.handle_exit(signal.SIGTERM, None)
        assert server.should_exit
        answer = client.get("/ready")
        assert client.post("/tokenize", json={"text": "a"}).status_code == 200
    assert answer.status_code == 503
    assert "stopping" in answer.json()["error"]["message"]


def test_a_fault_of_the_server_is_counted_as_one(service: Service, config: ServeConfig) -> None:
    class Broken(Predictor):
        def run_batch(self, features, outputs):  # type: ignore[no-untyped-def]
            raise RuntimeError("the secret of it")

    original = service.models[0].predictor
    broken = Broken(original.backend, original.tokenizer, original.purpose)
    broken_service = Service((replace(service.models[0], predictor=broken),))
    stream = io.StringIO()
    app = create_app(broken_service, config, stream)
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.post("/fill-mask", json={"text": "a [MASK]"})
        metrics = client.get("/metrics").text
        document = client.get("/openapi.json").json()
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "internal"
    assert "secret" not in answer.text
    assert 'litebert_requests_total{path="/fill-mask",status="500"} 1.0' in metrics
    assert json.loads(stream.getvalue().splitlines()[0])["status"] == 500
    assert {"408", "500"} <= document["paths"]["/fill-mask"]["post"]["responses"].keys()


def test_a_model_file_that_went_away_is_the_servers_fault(tmp_path: Path, onnx_folder: Callable[..., Path]) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(onnx_folder("pretraining"), folder)
    config = ServeConfig(model=(folder,), threads=1)
    app = create_app(Service.load(config), config)
    (folder / "model.onnx").unlink()  # the states of the layers are read from it when asked for
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.post("/layers", json={"text": "a name"})
        assert client.post("/fill-mask", json={"text": "a [MASK]"}).status_code == 200
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "internal"
    assert str(tmp_path) not in answer.text


def test_a_timeout_of_zero_is_none(service: Service, config: ServeConfig) -> None:
    with TestClient(create_app(service, replace(config, timeout_s=0))) as client:
        assert client.post("/fill-mask", json={"text": "a [MASK]"}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/order", {"first": "a", "second": "the value of"}),
        ("/answer", {"question": "the value of", "context": "a"}),
        ("/tokenize", {"text": "the value of"}),
        ("/multiple-choice", {"text": "a", "options": ["b", "the value of"]}),
    ],
)
def test_long_texts_of_any_field_are_left_to_another_thread(
    path: str, body: object, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    used: list[object] = []
    to_thread = asyncio.to_thread

    async def watched(work: Callable[[], object]) -> object:
        used.append(work)
        return await to_thread(work)

    monkeypatch.setattr("litebert.serve.endpoints.asyncio.to_thread", watched)
    assert client.post(path, json=body).status_code == 200
    assert used == []
    monkeypatch.setattr("litebert.serve.endpoints._LONG_TEXT_CHARACTERS", 10)
    assert client.post(path, json=body).status_code == 200
    assert len(used) == 1


def test_a_full_queue_answers_429_with_a_time(service: Service, config: ServeConfig) -> None:
    import threading

    started, release = threading.Event(), threading.Event()

    class Slow(Predictor):
        def run_batch(self, features, outputs):  # type: ignore[no-untyped-def]
            started.set()
            assert release.wait(60)
            return super().run_batch(features, outputs)

    original = service.models[0].predictor
    slow = Slow(original.backend, original.tokenizer, original.purpose)
    slow_service = Service((replace(service.models[0], predictor=slow),))
    answers = []
    with TestClient(create_app(slow_service, replace(config, max_queue_tokens=16))) as client:

        def ask() -> None:
            answers.append(client.post("/fill-mask", json={"text": "a [MASK]"}).status_code)

        first, second = threading.Thread(target=ask), threading.Thread(target=ask)
        first.start()
        assert started.wait(60)
        second.start()
        busy = None
        for _ in range(2000):
            if "litebert_queued_tokens 16.0" in client.get("/metrics").text:
                busy = client.post("/fill-mask", json={"text": "a [MASK]"})
                break
        release.set()
        first.join()
        second.join()
    assert busy is not None
    assert busy.status_code == 429
    assert int(busy.headers["Retry-After"]) >= 1
    assert answers == [200, 200]


def test_a_slow_answer_is_given_up(service: Service, config: ServeConfig) -> None:
    import threading

    release = threading.Event()

    class Stuck(Predictor):
        def run_batch(self, features, outputs):  # type: ignore[no-untyped-def]
            release.wait(60)
            return super().run_batch(features, outputs)

    original = service.models[0].predictor
    stuck = Stuck(original.backend, original.tokenizer, original.purpose)
    stuck_service = Service((replace(service.models[0], predictor=stuck),))
    with TestClient(create_app(stuck_service, replace(config, timeout_s=0.05))) as client:
        answer = client.post("/fill-mask", json={"text": "a [MASK]"})
        release.set()
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"


def test_metrics_and_access_log(service: Service, config: ServeConfig) -> None:
    stream = io.StringIO()
    with TestClient(create_app(service, config, stream)) as client:
        client.post("/fill-mask", json={"text": "a secret [MASK]"})
        client.post("/fill-mask", json={"text": "none"})
        client.get("/some/scanner/path")
        metrics = client.get("/metrics").text
    assert 'litebert_requests_total{path="/fill-mask",status="200"} 1.0' in metrics
    assert 'litebert_requests_total{path="/fill-mask",status="422"} 1.0' in metrics
    assert 'path="other",status="404"' in metrics
    assert "litebert_batch_inputs_count 1.0" in metrics
    assert "process_resident_memory_bytes" in metrics
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["status"] for line in lines][:3] == [200, 422, 404]
    assert "secret" not in stream.getvalue()


def test_other_sites_get_no_permission(client: TestClient) -> None:
    answer = client.options(
        "/fill-mask", headers={"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    )
    assert not any(name.lower().startswith("access-control") for name in answer.headers)


def test_pages_are_whole_and_load_nothing_from_elsewhere(client: TestClient) -> None:
    import re

    for page in ("/", "/docs"):
        answer = client.get(page)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        links = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
        local = [link for link in links if not link.startswith(("#", "data:"))]
        assert local
        for link in local:
            assert re.match(r"/(?!/)|static/", link), f"{page} links to {link}"
            assert client.get(link).status_code == 200, link


def test_two_models_of_one_name_are_told_apart(config: ServeConfig) -> None:
    twice = Service.load(replace(config, model=(config.model[0], config.model[0])))
    names = [model.name for model in twice.models]
    assert len(set(names)) == 2


def test_a_classifier_that_gives_only_logits_is_served(tmp_path: Path, onnx_folder: Callable[..., Path]) -> None:
    """As Optimum exports it: in a folder of its own, without the hidden states."""
    import shutil

    import onnx

    from litebert.interop.onnx.file import OnnxFile

    folder = tmp_path / "optimum"
    shutil.copytree(onnx_folder("classification"), folder)
    model = onnx.load_from_string(OnnxFile(folder / "model.onnx").with_outputs(["logits"]))
    del model.metadata_props[:]
    (folder / "model.onnx").unlink()
    (folder / "onnx").mkdir()
    onnx.save_model(model, folder / "onnx/model.onnx")
    config = ServeConfig(model=(folder,), threads=1)
    service = Service.load(config)
    assert service.models[0].abilities == ["classify", "tokenize"]
    with TestClient(create_app(service, config)) as client:
        assert client.post("/classify", json={"text": "a name"}).status_code == 200


def test_a_server_may_run_fewer_layers(model_folder: Callable[..., Path]) -> None:
    config = ServeConfig(model=(model_folder("pretraining"),), runtime="torch", depth=2)
    with pytest.raises(InputError, match="--force-depth"):
        Service.load(config)
    forced = replace(config, force_depth=True)
    with TestClient(create_app(Service.load(forced), forced)) as client:
        assert len(client.post("/layers", json={"text": "a name"}).json()["distance"]) == 2
        assert client.get("/info").json()["models"][0]["num_layers"] == 2


def test_info_says_how_many_layers_of_an_export_run(tmp_path: Path, model_folder: Callable[..., Path]) -> None:
    from litebert.interop.onnx.export import export_onnx

    export_onnx(model_folder("pretraining"), tmp_path / "whole")
    export_onnx(model_folder("pretraining"), tmp_path / "shallow", depth=2)
    config = ServeConfig(model=(tmp_path / "whole", tmp_path / "shallow"), threads=1)
    with TestClient(create_app(Service.load(config), config)) as client:
        models = client.get("/info").json()["models"]
    assert [model["num_layers"] for model in models] == [3, 2]
