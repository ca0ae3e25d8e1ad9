"""A batch without padding gives what the padded batch gives, text by text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder, first_rows
from litebert.predict.inputs import Batch, pad
from litebert.predict.ragged import RaggedBatch
from litebert.tasks.base import Feature, Row

CONFIG = ModelConfig(vocab_size=50, hidden_size=64, num_heads=2, num_layers=3, embedding_size=16)
ENCODER = Encoder(CONFIG, generator=torch.Generator().manual_seed(0)).eval()


def batch_of(lengths: list[int]) -> Batch:
    rows = [
        Row(np.array([(7 * row + i) % 49 + 1 for i in range(length)], np.int32), length // 2)
        for row, length in enumerate(lengths)
    ]
    return pad([Feature(0, (row,)) for row in rows], 0)


@torch.inference_mode()
def padded_way(inputs: Batch, depth: int | None = None) -> torch.Tensor:
    encoded = ENCODER(
        torch.from_numpy(inputs.input_ids),
        torch.from_numpy(inputs.full_mask()),
        torch.from_numpy(inputs.token_type_ids),
        depth,
    )
    return encoded.sequence_BSH


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.sampled_from([None, 1, 2]))
def test_every_token_and_every_first_token(lengths: list[int], depth: int | None) -> None:
    inputs = batch_of(lengths)
    expected_BSH = padded_way(inputs, depth)
    with torch.inference_mode():
        batch = RaggedBatch.of(inputs, depth)
        every_BSH = batch.padded(batch.encode(ENCODER))
        firsts_BH = batch.encode(ENCODER, first_rows(torch.from_numpy(inputs.input_ids)))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(every_BSH[row, :length], expected_BSH[row, :length])
        assert not every_BSH[row, length:].any()
    torch.testing.assert_close(firsts_BH, expected_BSH[:, 0])


@pytest.mark.parametrize("places", [[], [2], [13, 0, 13, 5]])
def test_any_places_in_any_order(places: list[int]) -> None:
    inputs = batch_of([3, 5, 4, 5])
    with torch.inference_mode():
        found_RH = RaggedBatch.of(inputs).encode(ENCODER, torch.tensor(places, dtype=torch.int64))
    torch.testing.assert_close(found_RH, padded_way(inputs).flatten(0, 1)[places])


def test_no_padding_is_computed() -> None:
    with torch.inference_mode():
        assert RaggedBatch.of(batch_of([3, 5, 4, 5])).encode(ENCODER).shape == (17, 64)
