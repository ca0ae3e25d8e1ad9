"""One step: any split of a batch gives the same gradient; clipping and refusal are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from litebert.data.batches.example import Batch
from litebert.dist.replica import Replica
from litebert.dist.runtime import Process
from litebert.model.config import ModelConfig
from litebert.model.heads import PretrainingModel
from litebert.optim.build import build_optimizers
from litebert.optim.config import OptimizerConfig
from litebert.train.loop import accumulate, update
from litebert.train.pretraining.config import Objective
from litebert.train.pretraining.feed import rows_of
from litebert.train.pretraining.objective import PretrainingLoss, counts_of

CPU = torch.device("cpu")
SHAPE = ModelConfig(vocab_size=50, embedding_size=16, hidden_size=64, num_layers=3)


def batch_of(rows: int, length: int, seed: int = 0) -> Batch:
    generator = np.random.default_rng(seed)
    ids = generator.integers(5, 50, (rows, length))
    lengths = generator.integers(length // 2, length + 1, rows)
    lengths[0] = length
    ids[np.arange(length) >= lengths[:, None]] = 0
    # Unequal numbers of predictions in each row: a mean of means would be wrong.
    places = [r * length + c for r in range(rows) for c in range(1, 2 + r % 4)]
    return Batch(
        input_ids=ids,
        token_type_ids=np.zeros_like(ids),
        lengths=lengths,
        masked_positions=np.array(places),
        masked_labels=generator.integers(5, 50, len(places)),
        sentence_labels=generator.integers(0, 2, rows),
        addresses=np.zeros((rows, 3), np.int64),
        position=0,
    )


def model() -> PretrainingModel:
    return PretrainingModel(SHAPE, generator=torch.Generator().manual_seed(1)).double()


def gradients(batches: list[Batch]) -> tuple[dict[str, torch.Tensor], list[float]]:
    replica = Replica(model(), Process(0, 1, CPU))
    predictions, pairs, _ = counts_of(batches)
    loss_of = PretrainingLoss(Objective(), predictions, pairs, layers=3, device=CPU)
    statistics = accumulate(replica, batches, loss_of, [0] * len(batches))
    named = replica.model.named_parameters()
    return {n: p.grad for n, p in named if p.grad is not None}, statistics.tolist()


@pytest.mark.parametrize("num_parts", [2, 3, 8])
def test_any_split_of_a_batch_gives_the_same_gradient(num_parts: int) -> None:
    whole = batch_of(rows=7, length=12)
    expected, expected_statistics = gradients([whole])
    parts = [rows_of(whole, part, num_parts) for part in range(num_parts)]
    found, statistics = gradients(parts)
    assert statistics == pytest.approx(expected_statistics, rel=1e-9)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-12)


def test_weights_of_the_objective() -> None:
    batch = batch_of(rows=4, length=8)
    predictions, pairs, _ = counts_of([batch])
    network = model()

    def loss(objective: Objective) -> float:
        loss_of = PretrainingLoss(objective, predictions, pairs, 3, CPU)
        return float(loss_of(network, batch)[0].detach())

    words, both = loss(Objective(sentence_weight=0.0)), loss(Objective())
    sentence = loss(Objective(mlm_weight=0.0))
    assert both == pytest.approx(words + sentence)
    assert loss(Objective(mlm_weight=2.0, sentence_weight=3.0)) == pytest.approx(
        2 * words + 3 * sentence
    )


def test_clipping_and_refusal() -> None:
    weight = torch.nn.Parameter(torch.tensor([[1.0, 1.0]]))
    optimizers = build_optimizers([("w", weight)], OptimizerConfig(name="adamw", eps=1e3), 1.0)
    weight.grad = torch.tensor([[3.0, 4.0]])
    assert update([weight], optimizers, clip_norm=1.0, loss=1.0) == pytest.approx(5.0)
    mean = optimizers[0].state[weight]["exp_avg"]
    torch.testing.assert_close(mean, torch.tensor([[0.06, 0.08]]))
    assert weight.grad is None

    before = weight.detach().clone()
    for gradient, loss in (([[math.inf, 0.0]], 1.0), ([[1.0, 1.0]], math.nan)):
        weight.grad = torch.tensor(gradient)
        assert not math.isfinite(update([weight], optimizers, clip_norm=1.0, loss=loss))
        assert torch.equal(weight, before)
        assert torch.equal(optimizers[0].state[weight]["exp_avg"], mean)
        assert weight.grad is None
