"""AdamW's fused path gives what its plain path gives, with and without bias correction."""

from __future__ import annotations

import pytest
import torch

from litebert.optim import adamw
from litebert.optim.adamw import AdamW


def trained(*, bias_correction: bool) -> tuple[list[torch.Tensor], AdamW]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((40, 30), (30,), (7, 3))
    params = [torch.nn.Parameter(torch.randn(s, generator=generator)) for s in shapes]
    groups: list[adamw.Group] = [{"params": params[:2]}, {"params": params[2:], "weight_decay": 0.0}]
    optimizer = AdamW(groups, lr=1e-2, weight_decay=0.1, bias_correction=bias_correction)
    for step in range(20):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 - step / 20)
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator)
        params[1].grad = None if step % 3 == 0 else params[1].grad
        optimizer.step()
    return [p.detach() for p in params], optimizer


@pytest.mark.parametrize("bias_correction", [False, True])
def test_the_fused_path_equals_the_plain_one(bias_correction: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, one = trained(bias_correction=bias_correction)
    monkeypatch.setattr(adamw, "_fits_the_fused_kernel", lambda _: False)
    plain, two = trained(bias_correction=bias_correction)
    for ours, theirs in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=2e-6)
    for first, second in zip(one.state.values(), two.state.values(), strict=True):
        assert first.keys() == second.keys()
        for key in first:
            torch.testing.assert_close(first[key], second[key], atol=2e-6, rtol=2e-6)


def test_the_correction_matters() -> None:
    with_it, without = trained(bias_correction=True)[0], trained(bias_correction=False)[0]
    assert all((a - b).abs().max() > 1e-3 for a, b in zip(with_it, without, strict=True))


def test_a_gradient_of_another_layout_is_not_given_to_the_kernel() -> None:
    param = torch.nn.Parameter(torch.zeros(3, 4))
    param.grad = torch.arange(12.0).reshape(4, 3).T
    AdamW([param], lr=1.0, weight_decay=0.0).step()
    expected = -0.1 * param.grad / (0.001**0.5 * param.grad.abs() + 1e-6)
    torch.testing.assert_close(param.detach(), expected)
