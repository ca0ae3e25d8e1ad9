"""Linear maps prepared for many uses give the numbers and gradients of plain ones."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from litebert.model import shared_linear
from litebert.model.config import ModelConfig
from litebert.model.heads import PretrainingModel
from litebert.model.onednn import can_pack
from litebert.model.shared_linear import SharedLinear, pays_to_share

pytestmark = pytest.mark.skipif(not can_pack(), reason="needs oneDNN on x86")

CONFIG = ModelConfig(
    vocab_size=50, hidden_size=64, num_heads=2, num_layers=4, embedding_size=16, hidden_dropout=0.1
)


def gradients_of(linear: nn.Linear, x: torch.Tensor, shared: bool) -> list[torch.Tensor]:
    """Of three uses, one inside the other, and of the input."""
    x = x.clone().requires_grad_()
    used = SharedLinear(linear.weight, linear.bias) if shared else linear
    out = used(torch.tanh(used(torch.tanh(used(x)))))
    return list(torch.autograd.grad(out.square().sum(), [linear.weight, linear.bias, x]))


@pytest.mark.parametrize("shape", [(1, 48), (7, 48), (3, 5, 48)])
def test_the_gradients_of_all_uses_are_added(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(48, 48), torch.randn(shape)
    expected = gradients_of(linear, x, shared=False)
    for found, wanted in zip(gradients_of(linear, x, shared=True), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_second_backward_pass_begins_anew() -> None:
    linear = nn.Linear(8, 8)
    used = SharedLinear(linear.weight, linear.bias)
    out = used(used(torch.ones(2, 8))).sum()
    first, second = (
        torch.autograd.grad(out, linear.weight, retain_graph=True)[0] for _ in range(2)
    )
    assert torch.equal(first, second)


def test_nothing_is_kept_when_the_pass_is_over() -> None:
    linear = nn.Linear(8, 8)
    used = SharedLinear(linear.weight, linear.bias)
    prepared = weakref.ref(used._weights)
    gc.disable()
    try:
        used(torch.ones(2, 8)).sum().backward()
        del used
        assert prepared() is None
    finally:
        gc.enable()


def test_when_it_pays() -> None:
    weight = torch.ones(256, 256)
    assert pays_to_share(weight, 2)
    assert not pays_to_share(weight[:255], 2)
    assert not pays_to_share(weight, 1)
    assert not pays_to_share(weight.double(), 2)
    with torch.no_grad():
        assert not pays_to_share(weight, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert not pays_to_share(weight, 2)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_model_learns_the_same_without_it(
    monkeypatch: pytest.MonkeyPatch, checkpoint: bool
) -> None:
    monkeypatch.setattr(shared_linear, "LEAST_ELEMENTS", 0)
    found = step_gradients(checkpoint)
    monkeypatch.setattr(shared_linear, "can_pack", lambda: False)
    for name, wanted in step_gradients(checkpoint).items():
        torch.testing.assert_close(found[name], wanted, rtol=1e-4, atol=1e-6, msg=name)


def step_gradients(checkpoint: bool) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = PretrainingModel(CONFIG, generator=torch.Generator().manual_seed(0))
    model.encoder.checkpoint_activations = checkpoint
    ids = torch.randint(5, 50, (3, 9))
    out = model(ids, None, None, torch.arange(4), ids[0, :4], torch.tensor([0, 1, 0]))
    assert out.mlm_loss_sum is not None
    assert out.sentence_loss_sum is not None
    (out.mlm_loss_sum + out.sentence_loss_sum).backward()
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
