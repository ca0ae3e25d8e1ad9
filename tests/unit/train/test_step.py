"""One step: any split of a batch gives the same gradient; clipping and refusal are exact."""

from __future__ import annotations

import math
from dataclasses import replace

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
from litebert.train.pretraining.curriculum import Stage
from litebert.train.pretraining.feed import rows_of
from litebert.train.pretraining.objective import Bag, PretrainingLoss, counts_of, piece_weights

CPU = torch.device("cpu")
COUNTS = np.arange(50) ** 3
PIECE_WEIGHTS = piece_weights(COUNTS, range(5), frequency=0.01)
SHAPE = ModelConfig(vocab_size=50, embedding_size=16, hidden_size=64, num_layers=3)
STAGE = Stage(layers=3, length=12, batch_size=8, micro_batch_size=8, mask_rate=0.15)


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


def taught(batch: Batch) -> Batch:
    """The same with a teacher's vectors."""
    vectors = np.random.default_rng(5).normal(size=(len(batch.lengths), SHAPE.hidden_size))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return replace(batch, vectors=unit.astype(np.float32))


def model() -> PretrainingModel:
    return PretrainingModel(SHAPE, generator=torch.Generator().manual_seed(1)).double()


def gradients(batches: list[Batch]) -> tuple[dict[str, torch.Tensor], list[float]]:
    replica = Replica(model(), Process(0, 1, CPU))
    predictions, pairs, _ = counts_of(batches)
    examples = sum(len(batch.addresses) for batch in batches)
    bag = Bag(0.7, examples, PIECE_WEIGHTS)
    objective = Objective(teacher_weight=3.0)
    loss_of = PretrainingLoss(objective, predictions, pairs, STAGE, CPU, bag=bag, num_taught=examples)
    statistics = accumulate(replica, batches, loss_of, [0] * len(batches))
    named = replica.model.named_parameters()
    return {n: p.grad for n, p in named if p.grad is not None}, statistics.tolist()


@pytest.mark.parametrize("num_parts", [2, 3, 8])
def test_any_split_of_a_batch_gives_the_same_gradient(num_parts: int) -> None:
    whole = taught(batch_of(rows=7, length=12))
    expected, expected_statistics = gradients([whole])
    parts = [rows_of(whole, part, num_parts) for part in range(num_parts)]
    found, statistics = gradients(parts)
    assert statistics == pytest.approx(expected_statistics, rel=1e-9)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-12)


def test_weights_of_the_objective() -> None:
    batch = taught(batch_of(rows=4, length=8))
    predictions, pairs, _ = counts_of([batch])
    network = model()

    def loss(objective: Objective) -> float:
        loss_of = PretrainingLoss(objective, predictions, pairs, STAGE, CPU)
        return float(loss_of(network, batch)[0].detach())

    words = loss(Objective(1.0, 0.0, teacher_weight=0.0))
    sentence = loss(Objective(0.0, 1.0, teacher_weight=0.0))
    vectors = loss(Objective(0.0, 0.0, teacher_weight=1.0))
    assert loss(Objective(2.0, 3.0, teacher_weight=4.0)) == pytest.approx(2 * words + 3 * sentence + 4 * vectors)


@pytest.mark.parametrize("masked_only", [False, True])
def test_the_bag_of_words_is_the_loss_at_cls_of_the_words_before_masking(masked_only: bool) -> None:
    batch, network = batch_of(rows=4, length=8), model()
    bag = Bag(1.5, 4, PIECE_WEIGHTS, masked_only)
    loss_of = PretrainingLoss(Objective(0.0, 0.0), 1, 1, STAGE, CPU, bag=bag)
    loss, statistics = loss_of(network, batch)
    masked = dict(zip(batch.masked_positions.tolist(), batch.masked_labels.tolist(), strict=True))
    expected = []
    for row, length in enumerate(batch.lengths):
        ids = batch.input_ids[row, :length]
        first = network.encoder(torch.from_numpy(ids[None])).sequence_BSH[0, 0]
        scores = network.encoder.embeddings.word.weight @ network.mlm(first[None])[0]
        chances = torch.softmax(scores + network.mlm.bias, 0).tolist()
        words = [masked.get(row * 8 + place) for place in range(length)]
        if not masked_only:
            words = [own if word is None else word for word, own in zip(words, ids, strict=True)]
        found = [word for word in words if word is not None and word >= 5]
        weights = [min(1.0, math.sqrt(0.01 * COUNTS.sum() / COUNTS[word])) for word in found]
        losses = [-math.log(chances[word]) for word in found]
        expected.append(np.average(losses, weights=weights))
    assert float(loss.detach()) == pytest.approx(1.5 * np.mean(expected), rel=1e-6)
    assert float(statistics[4]) == pytest.approx(np.sum(expected), rel=1e-6)


def test_the_teacher_s_loss_is_one_less_the_cosine_of_cls() -> None:
    batch, network = taught(batch_of(rows=4, length=8)), model()
    assert batch.vectors is not None
    objective = Objective(0.0, 0.0, teacher_weight=2.0)
    loss_of = PretrainingLoss(objective, 1, 1, STAGE, CPU, num_taught=4)
    loss, statistics = loss_of(network, batch)
    cosines = []
    for ids, length, vector in zip(batch.input_ids, batch.lengths, batch.vectors, strict=True):
        first = network.encoder(torch.from_numpy(ids[None, :length])).sequence_BSH[0, 0]
        cosine = first @ torch.from_numpy(vector).double() / first.norm()
        cosines.append(float(cosine.detach()))
    assert float(loss.detach()) == pytest.approx(2.0 * (1 - np.mean(cosines)), rel=1e-6)
    assert float(statistics[5]) == pytest.approx(4 - np.sum(cosines), rel=1e-6)


def test_the_bag_changes_no_other_loss() -> None:
    batch = batch_of(rows=4, length=8)
    plain = PretrainingLoss(Objective(), *counts_of([batch])[:2], STAGE, CPU)
    _, without = plain(model(), batch)
    _, statistics = replace(plain, bag=Bag(1.0, 4, PIECE_WEIGHTS))(model(), batch)
    assert torch.equal(without[:4], statistics[:4])
    assert float(without[4]) == 0.0


def test_clipping_and_refusal() -> None:
    weight = torch.nn.Parameter(torch.tensor([[1.0, 1.0]]))
    optimizers = build_optimizers([("w", weight)], OptimizerConfig(name="adamw", eps=1e3), 1.0)
    weight.grad = torch.tensor([[3.0, 4.0]])
    assert update([weight], optimizers, clip_norm=1.0, loss=1.0) == pytest.approx(5.0)
    mean = optimizers[0].state[weight]["exp_avg"]
    torch.testing.assert_close(mean, torch.tensor([[0.06, 0.08]]))
    assert [p.grad for p in (weight,)] == [None]

    before = weight.detach().clone()
    for gradient, loss in (([[math.inf, 0.0]], 1.0), ([[1.0, 1.0]], math.nan)):
        weight.grad = torch.tensor(gradient)
        assert not math.isfinite(update([weight], optimizers, clip_norm=1.0, loss=loss))
        assert torch.equal(weight, before)
        assert torch.equal(optimizers[0].state[weight]["exp_avg"], mean)
        assert weight.grad is None
