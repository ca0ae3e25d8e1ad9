"""The masked-word loss: cross-entropy over a large vocabulary, in pieces that fit the cache."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from litebert.model.layers import at_least_float32

IGNORED_LABEL = -100
"""A label that does not count, as in torch and transformers."""


class VocabularyLoss(NamedTuple):
    """Sums over the labelled rows."""

    loss_sum: Tensor
    """scalar, differentiable: sum of -log p(label)"""
    num_correct: Tensor
    """scalar int64: rows where no word scores higher than the label"""


def vocabulary_loss(
    hidden_ME: Tensor, table_VE: Tensor, bias_V: Tensor, labels_M: Tensor
) -> VocabularyLoss:
    """Cross-entropy of logits = hidden @ table.T + bias; rows labelled -100 do not count."""
    logits_MV = at_least_float32(F.linear(hidden_ME, table_VE, bias_V))
    loss_sum = F.cross_entropy(logits_MV, labels_M, reduction="sum")
    with torch.no_grad():
        num_correct = (logits_MV.argmax(-1) == labels_M).sum()
    return VocabularyLoss(loss_sum, num_correct)
