"""The masked-word loss: cross-entropy over a large vocabulary, in slices that fit the cache."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from litebert.model.config import IGNORED_LABEL
from litebert.model.counts import CPU_SLICE_ELEMENTS, GPU_SLICE_ELEMENTS
from litebert.model.cpu import AutogradContext
from litebert.model.layers import at_least_float32


class VocabularyLoss(NamedTuple):
    """Sums over the rows whose label counts."""

    loss_sum: Tensor
    """scalar, differentiable: sum of -log p(label)"""
    num_correct: Tensor
    """scalar int64: rows where no word scores higher than the label"""


def vocabulary_loss(hidden_ME: Tensor, table_VE: Tensor, bias_V: Tensor, labels_M: Tensor) -> VocabularyLoss:
    """Cross-entropy of hidden @ table.T + bias, in float32 at least; label -100 does not count."""
    if torch.compiler.is_compiling():
        # A compiler fuses the plain form itself, and would unroll the loop over slices.
        logits_MV = at_least_float32(F.linear(hidden_ME, table_VE, bias_V))
        loss_sum = F.cross_entropy(logits_MV, labels_M, reduction="sum", ignore_index=IGNORED_LABEL)
        return VocabularyLoss(loss_sum, (logits_MV.argmax(-1) == labels_M).sum())
    inputs = (hidden_ME, table_VE, bias_V)
    with_gradients = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    sums = _SlicedLoss.apply(*inputs, labels_M, with_gradients)  # type: ignore[no-untyped-call]
    return VocabularyLoss(*sums)


_Gradients = tuple[Tensor, Tensor, Tensor] | tuple[()]
"""Of hidden [M, E], table [V, E] and bias [V]; empty where none are needed."""


class _SlicedLoss(torch.autograd.Function):
    """Loss and gradients by slices of rows, so that [M, V] never exists.

    The gradient of a slice follows from its logits while they are still in the cache, so forward
    computes the gradients too (where they are needed) and backward only scales them.
    """

    @staticmethod
    def forward(
        ctx: AutogradContext,
        hidden_ME: Tensor,
        table_VE: Tensor,
        bias_V: Tensor,
        labels_M: Tensor,
        with_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        """Scalar sum of losses, and number of correct rows."""
        device = hidden_ME.device.type
        if torch.is_autocast_enabled(device):
            narrow = torch.get_autocast_dtype(device)
            hidden_ME, table_VE, bias_V = (x.to(narrow) for x in (hidden_ME, table_VE, bias_V))
        with torch.autocast(device, enabled=False):
            loss_M, correct_M, gradients = _loss_by_slices(hidden_ME, table_VE, bias_V, labels_M, with_gradients)
        ctx.save_for_backward(*gradients)
        num_correct = correct_M.sum()
        ctx.mark_non_differentiable(num_correct)
        return loss_M.sum(), num_correct

    @staticmethod
    @once_differentiable
    def backward(ctx: AutogradContext, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients; the labels and the flag have none."""
        return *(gradient * grad_loss for gradient in ctx.saved_tensors), None, None


def _loss_by_slices(
    hidden_ME: Tensor, table_VE: Tensor, bias_V: Tensor, labels_M: Tensor, with_gradients: bool
) -> tuple[Tensor, Tensor, _Gradients]:
    """Loss and correctness of each row (0 and false where ignored), and gradients of the sum."""
    num_rows, num_words = len(hidden_ME), len(table_VE)
    wide = torch.promote_types(hidden_ME.dtype, torch.float32)
    budget = CPU_SLICE_ELEMENTS if hidden_ME.device.type == "cpu" else GPU_SLICE_ELEMENTS
    slice_rows = max(1, min(num_rows, budget // num_words))
    buffer = hidden_ME.new_empty((slice_rows, num_words), dtype=wide)
    counts_M = labels_M != IGNORED_LABEL
    loss_M = hidden_ME.new_empty(num_rows, dtype=wide)
    correct_M = torch.empty_like(counts_M)
    gradients: _Gradients = ()
    if with_gradients:
        gradients = (
            torch.empty_like(hidden_ME, dtype=wide),
            torch.zeros_like(table_VE, dtype=wide),
            torch.zeros_like(bias_V, dtype=wide),
        )
    for start in range(0, num_rows, slice_rows):
        rows = slice(start, start + slice_rows)
        hidden, counts = hidden_ME[rows], counts_M[rows]
        labels = labels_M[rows, None].clamp(min=0)
        scores = _logits(hidden, table_VE, bias_V, buffer[: len(hidden)])
        label_score = scores.gather(1, labels).squeeze(1)
        best_score = scores.amax(1)
        probabilities = torch.softmax(scores, 1, out=scores)
        # log(sum(exp(scores))) through the largest probability, which cannot underflow.
        log_total = best_score - probabilities.amax(1).log()
        loss_M[rows] = (log_total - label_score) * counts
        correct_M[rows] = (label_score >= best_score) & counts
        if gradients:
            grad_hidden_ME, grad_table_VE, grad_bias_V = gradients
            grad_logits = probabilities
            grad_logits.scatter_add_(1, labels, grad_logits.new_full(labels.shape, -1.0))
            # Ignored rows are dropped on the narrow side, E.
            counted, narrow = counts.to(wide), grad_logits.to(hidden.dtype)
            _add_product(grad_table_VE, narrow.t(), hidden * counts.to(hidden.dtype)[:, None])
            grad_hidden_ME[rows] = torch.mm(narrow, table_VE) * counted[:, None]
            grad_bias_V.addmv_(grad_logits.t(), counted)
    return loss_M, correct_M, gradients


def _logits(hidden: Tensor, table_VE: Tensor, bias_V: Tensor, out: Tensor) -> Tensor:
    """hidden @ table.T + bias into `out`, which may be wider than the inputs."""
    if out.dtype == hidden.dtype:
        return torch.addmm(bias_V, hidden, table_VE.t(), out=out)
    return out.copy_(torch.addmm(bias_V, hidden, table_VE.t()))


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to `total`, which may be wider."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total.add_(torch.mm(left, right))
