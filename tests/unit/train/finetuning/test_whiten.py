"""A whitened pooler: the states of the training texts are uncorrelated and of equal size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from litebert.model.config import ModelConfig, Pooling
from litebert.model.heads import SequenceClassifier
from litebert.predict.inputs import pad
from litebert.predict.torch_backend import head_inputs
from litebert.tasks.base import Feature, Row
from litebert.train.finetuning import setup
from litebert.train.finetuning.setup import whiten_pooler

SHAPE = ModelConfig(vocab_size=60, hidden_size=64, num_layers=2, hidden_dropout=0.1)


def features(number: int) -> list[Feature]:
    generator = np.random.default_rng(0)
    rows = [generator.integers(5, 60, generator.integers(3, 12)) for _ in range(number)]
    return [Feature(index, (Row(np.array([2, *row, 3], np.int32), len(row) + 2),)) for index, row in enumerate(rows)]


def before_tanh(model: SequenceClassifier, texts: list[Feature]) -> torch.Tensor:
    """What the pooler makes of the states, [N, H]."""
    inputs = head_inputs(pad(texts, 0), torch.device("cpu"))
    with torch.no_grad():
        said: torch.Tensor = model.encoder.pooler(model.unpooled(model.states(inputs), inputs))
    return said


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_every_direction_is_of_equal_size(pooling: Pooling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "_RIDGE", 1e-9)
    monkeypatch.setattr(setup, "_LEAST", 1e-6)
    shape = ModelConfig(**{**vars(SHAPE), "pooling": pooling})
    model = SequenceClassifier(shape, generator=torch.Generator().manual_seed(0)).train()
    texts = features(600)
    whiten_pooler(model, texts, pad_id=0, max_tokens=512, seed=0)
    assert model.training
    said = before_tanh(model.eval(), texts)
    torch.testing.assert_close(said.mean(0), torch.zeros(64), atol=0.02, rtol=0)
    spread = torch.linalg.eigvalsh(torch.cov(said.T, correction=0))
    # A norm's output has one direction in which nothing varies.
    torch.testing.assert_close(spread[1:], torch.full((63,), 0.25), atol=0.02, rtol=0)


def test_texts_that_are_all_the_same_give_finite_weights() -> None:
    model = SequenceClassifier(SHAPE, generator=torch.Generator().manual_seed(0)).train()
    whiten_pooler(model, features(1) * 8, pad_id=0, max_tokens=512, seed=0)
    assert all(torch.isfinite(parameter).all() for parameter in model.encoder.pooler.parameters())
    assert before_tanh(model.eval(), features(1)).abs().max() < 1e-2


def test_many_texts_are_represented_by_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "MOST_FEATURES", 20)
    seen: list[int] = []

    def batches(some: list[Feature], most: int) -> list[list[int]]:
        seen.append(len(some))
        return [[0, 1, 2]]

    monkeypatch.setattr(setup, "micro_batches", batches)
    whiten_pooler(SequenceClassifier(SHAPE), features(50), pad_id=0, max_tokens=512, seed=0)
    assert seen == [20]
