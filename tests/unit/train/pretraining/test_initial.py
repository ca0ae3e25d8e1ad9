"""Initial weights: heads look at their neighbours, the bias knows the frequencies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from litebert.model.config import ModelConfig, preset
from litebert.model.heads import PretrainingModel
from litebert.model.layers import Attention
from litebert.train.pretraining.initial import look_at_neighbours, set_word_frequencies

SHAPES = {
    "small": preset("albert-small", vocab_size=300),
    "mini": preset("albert-mini", vocab_size=300),
    "tiny": preset("albert-tiny", vocab_size=300),
    "no projection": ModelConfig(vocab_size=300, embedding_size=256, hidden_size=256, num_layers=2, sharing="none"),
    "words projected": ModelConfig(vocab_size=300, hidden_size=256, num_layers=2, embedding_layout="projected_words"),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_head_looks_at_its_neighbour(shape: ModelConfig) -> None:
    generator = torch.Generator().manual_seed(0)
    model = PretrainingModel(shape, generator=generator)
    look_at_neighbours(model.encoder, generator)
    ids = torch.randint(5, 300, (8, 40), generator=generator)
    x_BSH = model.encoder.embeddings(ids, None).detach()
    for attention in model.encoder.attention:
        assert isinstance(attention, Attention)
        for head in range(shape.heads):
            part = slice(head * shape.head_size, (head + 1) * shape.head_size)
            query = x_BSH @ attention.query.weight[part].T
            key = x_BSH @ attention.key.weight[part].T
            scores = query @ key.transpose(1, 2) / math.sqrt(shape.head_size)
            weights = torch.softmax(scores, -1).mean(0).detach()
            looks = {shift: float(weights.diagonal(shift).mean()) for shift in range(-8, 9)}
            wanted = (head // 2 + 1) * (-1 if head % 2 == 0 else 1)
            assert max(looks, key=looks.__getitem__) == wanted
            assert looks[wanted] > 0.3


def test_other_heads_look_everywhere() -> None:
    generator = torch.Generator().manual_seed(0)
    shape = preset("albert-tiny", vocab_size=300, num_heads=4)
    model = PretrainingModel(shape, generator=generator)
    drawn = model.encoder.attention[0].query.weight.detach().clone()  # type: ignore[union-attr, operator]
    look_at_neighbours(model.encoder, generator, most_heads=2)
    now = model.encoder.attention[0].query.weight.detach()  # type: ignore[union-attr, operator]
    half = len(now) // 2
    assert torch.equal(now[half:], drawn[half:])
    assert not torch.equal(now[:half], drawn[:half])


def test_the_bias_is_the_log_frequency() -> None:
    model = PretrainingModel(ModelConfig(vocab_size=4, hidden_size=64, num_layers=1))
    set_word_frequencies(model, np.array([0, 7, 1]))
    expected = torch.tensor([1.0, 8.0, 2.0, 1.0]) / 12
    torch.testing.assert_close(model.mlm.bias.exp(), expected)


def test_equal_seeds_give_equal_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        model = PretrainingModel(SHAPES["tiny"], generator=generator)
        look_at_neighbours(model.encoder, generator)
        return model.encoder.get_parameter("attention.0.value.weight")

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
