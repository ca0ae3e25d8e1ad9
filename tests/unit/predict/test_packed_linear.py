"""Packed linear maps give what `nn.Linear` gives, and a model without them still works."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.onednn import can_pack
from litebert.predict import packed_linear
from litebert.predict.packed_linear import PackedLinear, pack_linears

CONFIG = ModelConfig(vocab_size=50, hidden_size=64, num_heads=2, num_layers=3, embedding_size=16)
IDS = torch.arange(14).view(2, 7)


@pytest.fixture(name="encoder")
def _encoder() -> Encoder:
    return Encoder(CONFIG, generator=torch.Generator().manual_seed(0)).eval()


@pytest.mark.skipif(not can_pack(), reason="needs oneDNN on x86")
@pytest.mark.parametrize("shape", [(1, 48), (7, 48), (3, 130, 48)])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_linear_equals_linear(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(48, 31, bias=bias), torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(linear)(x), linear(x), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not can_pack(), reason="needs oneDNN on x86")
def test_packed_encoder_keeps_its_sharing_and_its_numbers(encoder: Encoder) -> None:
    with torch.inference_mode():
        before = encoder(IDS).sequence_BSH
        pack_linears(encoder)
        after = encoder(IDS).sequence_BSH
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-5)
    num_packed = sum(isinstance(module, PackedLinear) for module in encoder.modules())
    assert num_packed == 4 + 2 + 1 + 1, "one block, the projection and the pooler"
    assert not any(isinstance(module, nn.Linear) for module in encoder.modules())


def test_where_packing_is_impossible_nothing_changes(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_linear, "can_pack", lambda: False)
    pack_linears(encoder)
    assert not any(isinstance(module, PackedLinear) for module in encoder.modules())
    assert any(isinstance(module, nn.Linear) for module in encoder.modules())
