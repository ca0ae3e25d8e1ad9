"""The piecewise masked-word loss equals cross-entropy over all logits, gradients included."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from litebert.model import pretraining
from litebert.model.pretraining import vocabulary_loss


class Case(NamedTuple):
    hidden: Tensor
    table: Tensor
    bias: Tensor
    labels: Tensor


def _case(dtype: torch.dtype = torch.float32, rows: int = 7, scale: float = 1.0) -> Case:
    generator = torch.Generator().manual_seed(3)
    words, width = 11, 5

    def draw(*shape: int) -> Tensor:
        values = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return values.to(dtype).requires_grad_()

    labels = torch.randint(0, words, (rows,), generator=generator)
    return Case(draw(rows, width), draw(words, width), draw(words), labels)


@pytest.fixture(autouse=True)
def _three_rows_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "CPU_SLICE_ELEMENTS", 33)


def _reference(case: Case) -> tuple[Tensor, Tensor]:
    logits = F.linear(case.hidden, case.table, case.bias).float()
    return (F.cross_entropy(logits, case.labels, reduction="sum"), (logits.argmax(-1) == case.labels).sum())


def _gradients(case: Case, loss: Tensor, scale: float = 1.0) -> list[Tensor]:
    return list(torch.autograd.grad(loss * scale, (case.hidden, case.table, case.bias)))


@pytest.mark.parametrize("rows", [1, 3, 7])
@pytest.mark.parametrize("ignored", [False, True])
def test_sums_and_gradients_equal_plain_cross_entropy(rows: int, ignored: bool) -> None:
    case = _case(rows=rows)
    if ignored:
        case.labels[rows // 2] = -100
    loss, correct = vocabulary_loss(*case)
    expected_loss, expected_correct = _reference(case)
    torch.testing.assert_close(loss, expected_loss)
    assert correct == expected_correct
    for ours, theirs in zip(_gradients(case, loss, 0.3), _gradients(case, expected_loss, 0.3), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_gradient_is_the_derivative() -> None:
    case = _case(torch.float64)
    case.labels[2] = -100
    assert torch.autograd.gradcheck(lambda *x: vocabulary_loss(*x)[0], tuple(case))


def test_extreme_logits_stay_finite() -> None:
    case = _case(scale=40.0)
    loss, _ = vocabulary_loss(*case)
    assert loss > 1000, "the probability of the label underflows here"
    torch.testing.assert_close(loss, _reference(case)[0])


def test_correct_words_are_counted() -> None:
    hidden, table = torch.eye(4), torch.eye(4)
    labels = torch.tensor([0, 1, 0, -100])
    loss, correct = vocabulary_loss(hidden, table, torch.zeros(4), labels)
    assert correct == 2
    assert not loss.requires_grad


def test_no_rows_give_no_loss_and_zero_gradients() -> None:
    case = _case(rows=7)
    empty = Case(case.hidden[:0], case.table, case.bias, case.labels[:0])
    loss, correct = vocabulary_loss(*empty)
    assert loss == correct == 0
    grad_table, grad_bias = torch.autograd.grad(loss, (case.table, case.bias))
    assert not grad_table.any()
    assert not grad_bias.any()


def test_evaluation_computes_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case()

    def refuse(*_: object) -> None:
        raise AssertionError("a gradient was computed")

    monkeypatch.setattr(pretraining, "_add_product", refuse)
    with torch.no_grad():
        loss, _ = vocabulary_loss(*case)
    torch.testing.assert_close(loss, _reference(case)[0])
    with pytest.raises(AssertionError, match="was computed"):
        vocabulary_loss(*case)


def test_autocast_multiplies_in_half_and_sums_in_float32() -> None:
    case = _case()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = vocabulary_loss(*case)
        expected, _ = _reference(case)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(_gradients(case, loss), _gradients(case, expected), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05)
