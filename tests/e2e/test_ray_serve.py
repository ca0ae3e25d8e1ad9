"""The Ray Serve example on a local cluster: replicas, batches, a bad record, a rolling restart."""

from __future__ import annotations

import json
import os
import runpy
import socket
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from litebert.predict.predictor import Predictor
from tiny_models import TINY, random_model_folder

pytestmark = pytest.mark.ray

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ray_serve.py"
TEXTS = [f"the value of a name, {number} " * (1 + number % 5) for number in range(40)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Any, str]]:
    """A cluster of this process, and the address where it answers."""
    for check in ("READY", "HEALTH"):  # a busy machine takes longer than Ray expects
        os.environ.setdefault(f"RAY_SERVE_PROXY_{check}_CHECK_TIMEOUT_S", "120")
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    serve = pytest.importorskip("ray.serve", reason="needs `pip install 'ray[serve]'`", exc_type=ImportError)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(num_cpus=4, include_dashboard=False, address="local", log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield serve, f"http://127.0.0.1:{port}/predict"
    serve.shutdown()
    ray.shutdown()


def ask(address: str, record: dict[str, object]) -> dict[str, Any]:
    request = urllib.request.Request(address, json.dumps(record).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())  # type: ignore[no-any-return]


def test_replicas_answer_as_one_and_are_replaced_without_a_gap(
    cluster: tuple[Any, str], tmp_path: Path, tiny_tokenizer_dir: Path
) -> None:
    serve, address = cluster
    deployment = runpy.run_path(str(EXAMPLE))["Model"]
    first = random_model_folder(tmp_path / "first", "classification", tiny_tokenizer_dir)
    second = random_model_folder(tmp_path / "second", "regression", tiny_tokenizer_dir, TINY)

    def deploy(folder: Path) -> None:
        model = deployment.options(num_replicas=2).bind(str(folder), 8, 0.05, 256)
        serve.run(model, name="litebert", route_prefix="/predict")

    deploy(first)
    running = serve.status().applications["litebert"].deployments["Model"]
    assert running.replica_states == {"RUNNING": 2}
    expected = Predictor.load(first, threads=1).predict([{"text": text} for text in TEXTS])
    with ThreadPoolExecutor(16) as pool:
        records: list[dict[str, object]] = [{"text": text} for text in TEXTS]
        found = list(pool.map(lambda record: ask(address, record), [*records, {"texts": "typo"}]))
    assert "text" in found.pop()["error"]
    for answer, own in zip(found, expected, strict=True):
        assert answer["label"] == own["label"]
        assert answer["scores"] == pytest.approx(own["scores"], abs=1e-5)
    said: list[dict[str, Any]] = []
    is_over = threading.Event()

    def go_on() -> None:
        while not is_over.is_set():
            said.append(ask(address, {"text": TEXTS[0]}))

    asking = threading.Thread(target=go_on)
    asking.start()
    deploy(second)
    is_over.set()
    asking.join()
    assert said
    assert not [answer for answer in said if "error" in answer]
    (own,) = Predictor.load(second, threads=1).predict([{"text": TEXTS[0]}])
    assert ask(address, {"text": TEXTS[0]})["value"] == pytest.approx(own["value"], abs=1e-5)
