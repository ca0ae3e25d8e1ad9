"""The OpenAPI document is true: requests drawn from it, valid and not, get what it promises."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings

from litebert.serve.app import create_app
from litebert.serve.config import ServeConfig
from litebert.serve.service import Service

if TYPE_CHECKING:
    from schemathesis import BaseSchema, Case

schemathesis = pytest.importorskip("schemathesis", reason="needs `pip install schemathesis`")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")
pytestmark = pytest.mark.slow

HEADS = (
    "pretraining", "classification", "squad2", "multiple_choice", "token_classification",
    "regression",
)  # fmt: skip

QUESTIONS = (
    "/fill-mask",
    "/order",
    "/classify",
    "/answer",
    "/multiple-choice",
    "/tag",
    "/rerank",
    "/v1/embeddings",
    "/tokenize",
    "/layers",
)
OPERATIONS = ("/health", "/ready", "/info", "/metrics", "/v1/models", "/v1/models/{name}")
"""Without a body, so nothing about a request can be wrong."""


@pytest.fixture(scope="module")
def document(onnx_folder: Callable[..., Path]) -> Iterator[BaseSchema]:
    """The document of a server that listens on a port of its own."""
    config = ServeConfig(model=tuple(onnx_folder(head) for head in HEADS), threads=1, max_characters=2000)
    app = create_app(Service.load(config), config)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize(
    ("path", "mode"),
    [(path, "positive") for path in QUESTIONS + OPERATIONS] + [(path, "negative") for path in QUESTIONS],
)
def test_every_answer_is_one_that_the_document_promises(document: BaseSchema, path: str, mode: str) -> None:
    """No 500; status, headers and body as described; what the schema forbids is refused."""
    (operation,) = document[path].values()
    drawn = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=drawn)
    def check(case: Case[Any]) -> None:
        # A text without [MASK], say, is right by the schema and refused all the same.
        case.call_and_validate(excluded_checks=[checks.positive_data_acceptance])

    check()


def test_no_path_is_left_out(document: BaseSchema) -> None:
    assert set(document) == {*QUESTIONS, *OPERATIONS}
