"""Probes: states do not depend on the batch, what is in them is found, baselines stand beside."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import litebert
from litebert.cli import main
from litebert.common.errors import ConfigError, InputError
from litebert.predict.backend import open_backend
from litebert.tasks.base import Feature, Row
from litebert.text.tokenizer import Tokenizer
from litebert.train.probe import ProbeResult, probe, states

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "custom_task"
STATES = ("cls", "mean", "table")


def feature(*words: int) -> Feature:
    ids = np.array([2, *words, 3], np.int32)
    return Feature(0, (Row(ids, len(ids)),))


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_states_are_those_of_each_feature_alone(
    model_folder: Callable[..., Path], onnx_folder: Callable[..., Path], tiny_tokenizer: Tokenizer, runtime: str
) -> None:
    folder = (model_folder if runtime == "torch" else onnx_folder)("pretraining")
    backend = open_backend(folder)
    features = [feature(7, 8, 9), feature(11), feature(5, 6, 7, 8, 20)]
    together = states(backend, features, tiny_tokenizer)
    assert set(together) == {"cls", "mean", *(["table"] if runtime == "torch" else [])}
    for index, one in enumerate(features):
        for name, vectors in states(backend, [one], tiny_tokenizer).items():
            np.testing.assert_allclose(together[name][index], vectors[0], atol=1e-5)
    if runtime == "torch":
        model = litebert.load_model(folder)
        table = model.get_parameter("encoder.embeddings.word.weight").detach().numpy()
        np.testing.assert_allclose(together["table"][1], table[11], atol=1e-6)
        np.testing.assert_allclose(together["table"][0], table[[7, 8, 9]].mean(0), atol=1e-6)


def test_a_task_of_words_is_found_in_words(model_folder: Callable[..., Path]) -> None:
    found = probe(model_folder("pretraining"), str(EXAMPLES / "classification.toml"))
    assert isinstance(found, ProbeResult)
    assert found.metric == "accuracy"
    kinds = [(one.weights, one.features) for one in found.probes]
    of_states = [(weights, name) for weights in ("model", "random") for name in STATES]
    assert kinds == [*of_states, ("none", "words"), ("none", "majority")]
    majority, words = found.find("majority", "none"), found.find("words", "none")
    assert majority is not None
    assert words is not None
    assert words.score > majority.score + 0.25
    for one in found.probes:
        assert one.low is not None
        assert one.high is not None
        assert -1e-9 <= one.low <= one.score <= one.high + 1e-9
        assert one.scores["accuracy"] == pytest.approx(one.score)
    assert found.find("words", "model") is None


def test_numbers_and_an_onnx_folder(onnx_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["probe", "--model", str(onnx_folder("pretraining")), "--max-train", "30"]
    command += ["--task", str(EXAMPLES / "regression.toml")]
    main([*command, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["metric"] == "pearson"
    assert found["train_examples"] == 30
    assert ["model", "table"] not in [[p["weights"], p["features"]] for p in found["probes"]]
    assert all(p["low"] is None and -1.0 <= p["score"] <= 1.0 for p in found["probes"])


def test_the_table(model_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    task = str(EXAMPLES / "classification.toml")
    main(["probe", "--model", str(model_folder("encoder")), "--task", task])
    page = capsys.readouterr().out
    for text in ("[CLS] of the last layer", "random weights", "bag of words", "always the same"):
        assert text in page


@pytest.mark.parametrize("kind", ["multi_label", "span_extraction", "token_classification"])
def test_other_kinds_are_refused(model_folder: Callable[..., Path], kind: str) -> None:
    with pytest.raises(ConfigError, match="probes are for classes and numbers"):
        probe(model_folder("encoder"), str(EXAMPLES / f"{kind}.toml"))


def test_too_few_examples_and_models_without_states_are_refused(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = str(EXAMPLES / "classification.toml")
    with pytest.raises(ConfigError, match="max_train is 1"):
        probe(model_folder("encoder"), task, max_train=1)
    backend = open_backend(model_folder("encoder"))
    info = replace(backend.info, outputs=frozenset())
    monkeypatch.setattr(backend, "info", info)
    monkeypatch.setattr("litebert.train.probe.open_backend", lambda *_, **__: backend)
    with pytest.raises(InputError, match="gives no last_hidden_state"):
        probe(model_folder("encoder"), task)
