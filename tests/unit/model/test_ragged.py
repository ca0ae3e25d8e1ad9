"""A batch without padding gives what the padded batch gives, text by text."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder, first_rows

CONFIG = ModelConfig(vocab_size=50, hidden_size=64, num_heads=2, num_layers=3, embedding_size=16)
ENCODER = Encoder(CONFIG, generator=torch.Generator().manual_seed(0)).eval()


def batch_of(lengths: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and segments."""
    rows, columns = torch.arange(len(lengths))[:, None], torch.arange(max(lengths))
    mask = columns < torch.tensor(lengths)[:, None]
    return ((7 * rows + columns) % 49 + 1) * mask, mask, columns % 2 * mask


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.sampled_from([None, 1, 2]))
@torch.inference_mode()
def test_every_token_and_every_first_token(lengths: list[int], depth: int | None) -> None:
    batch = batch_of(lengths)
    expected_BSH = ENCODER(*batch, depth).sequence_BSH
    every_BSH = ENCODER.forward_ragged(*batch, depth)
    firsts_BH = ENCODER.forward_ragged(*batch, depth, first_rows(batch[0]))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(every_BSH[row, :length], expected_BSH[row, :length])
        assert not every_BSH[row, length:].any()
    torch.testing.assert_close(firsts_BH, expected_BSH[:, 0])


@pytest.mark.parametrize("places", [[], [2], [13, 0, 13, 5]])
@torch.inference_mode()
def test_any_places_in_any_order(places: list[int]) -> None:
    batch = batch_of([3, 5, 4, 5])
    rows = torch.tensor(places, dtype=torch.int64)
    found_RH = ENCODER.forward_ragged(*batch, rows_R=rows)
    torch.testing.assert_close(found_RH, ENCODER(*batch).sequence_BSH.flatten(0, 1)[places])


@torch.inference_mode()
def test_mask_and_segments_may_be_left_out() -> None:
    ids, mask, _ = batch_of([5, 5])
    whole = ENCODER(ids).sequence_BSH
    torch.testing.assert_close(ENCODER.forward_ragged(ids), whole)
    torch.testing.assert_close(ENCODER.forward_ragged(ids, mask.long()), whole)


def test_no_padding_is_computed() -> None:
    shapes: list[torch.Size] = []
    hooks = [
        block.register_forward_hook(lambda _module, _inputs, output: shapes.append(output.shape))
        for block in ENCODER.blocks
    ]
    ENCODER.forward_ragged(*batch_of([3, 5, 4, 5]))
    for hook in hooks:
        hook.remove()
    assert shapes == [(17, 64)] * 3


def test_gradients_are_those_of_the_padded_batch() -> None:
    batch = batch_of([3, 5, 4, 5])
    gradients = []
    for sequence in (ENCODER(*batch).sequence_BSH, ENCODER.forward_ragged(*batch)):
        loss = sequence[batch[1]].pow(3).sum()
        parameters = [p for n, p in ENCODER.named_parameters() if not n.startswith("pooler")]
        gradients.append(torch.autograd.grad(loss, parameters))
    for padded, ragged in zip(*gradients, strict=True):
        torch.testing.assert_close(padded, ragged, rtol=1e-4, atol=1e-4)
