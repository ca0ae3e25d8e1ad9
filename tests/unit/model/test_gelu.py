"""The fast GELU equals torch's, in value and gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from litebert.model import gelu
from litebert.model.gelu import gelu_tanh


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 10 elements, so that small tensors need several and a shorter last one."""
    monkeypatch.setattr(gelu, "_PIECE_ELEMENTS", 10)


@pytest.mark.usefixtures("small_pieces")
def test_value_and_gradient_equal_torch_over_the_whole_range() -> None:
    x = torch.cat((torch.linspace(-12, 12, 4001), torch.tensor([-1e4, -100.0, 0.0, 100.0, 1e4])))
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    grad = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    y_ours, y_theirs = gelu_tanh(ours), F.gelu(theirs, approximate="tanh")
    torch.testing.assert_close(y_ours, y_theirs, rtol=2e-6, atol=1e-6)
    y_ours.backward(grad)
    y_theirs.backward(grad)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=2e-6, atol=1e-6)


@pytest.mark.usefixtures("small_pieces")
def test_gradient_is_the_derivative() -> None:
    x = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(gelu_tanh, x)


def test_any_layout_and_size() -> None:
    x = torch.randn(6, 5).t()
    torch.testing.assert_close(gelu_tanh(x), F.gelu(x, approximate="tanh"))
    assert gelu_tanh(torch.empty(0, 4)).shape == (0, 4)


def test_half_precision_goes_through_torch() -> None:
    x = torch.randn(8).bfloat16()
    assert torch.equal(gelu_tanh(x), F.gelu(x, approximate="tanh"))
