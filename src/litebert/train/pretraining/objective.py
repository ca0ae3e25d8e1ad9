"""The pretraining loss of a micro-batch: masked words and the sentence task, by global counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from litebert.data.batches.example import Batch
from litebert.dist.runtime import Precision, autocast
from litebert.model.config import IGNORED_LABEL, ModelConfig
from litebert.train.estimate import step_flops
from litebert.train.pretraining.config import Objective, PretrainConfig

STATISTICS = ("mlm_loss_sum", "mlm_correct", "sentence_loss_sum", "sentence_correct")
"""What :meth:`PretrainingLoss.__call__` sums up besides the loss, in this order."""


def inputs_of(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor | None, Tensor]:
    """Ids [B, S], attention mask [B, S] (None if nothing is padded) and segments [B, S]."""
    ids = torch.from_numpy(batch.input_ids).to(device)
    segments = torch.from_numpy(batch.token_type_ids).to(device)
    length = ids.shape[1]
    if int(batch.lengths.min()) == length:
        return ids, None, segments
    lengths = torch.from_numpy(batch.lengths).to(device)
    return ids, torch.arange(length, device=device) < lengths[:, None], segments


def counts_of(batches: list[Batch]) -> tuple[int, int, int]:
    """Predicted tokens, labelled pairs and real tokens of some batches.

    A row without an address only stands in for one: its tokens do not count.
    """
    return (
        sum(len(batch.masked_labels) for batch in batches),
        sum(int((batch.sentence_labels != IGNORED_LABEL).sum()) for batch in batches),
        sum(int(batch.lengths[: len(batch.addresses)].sum()) for batch in batches),
    )


def batch_flops(shape: ModelConfig, batch: Batch, layers: int) -> float:
    """Operations of forward and backward of a batch."""
    rows, length = batch.input_ids.shape
    return step_flops(shape, rows, length, len(batch.masked_labels), layers)


def smallest_batch() -> Batch:
    """One example of three tokens, one of them predicted: enough to run a model once."""
    ids = np.array([[2, 4, 3]])
    return Batch(
        input_ids=ids,
        token_type_ids=np.zeros_like(ids),
        lengths=np.array([3]),
        masked_positions=np.array([1]),
        masked_labels=np.array([2]),
        sentence_labels=np.array([0]),
        addresses=np.zeros((1, 3), np.int64),
        position=0,
    )


@dataclass(frozen=True)
class PretrainingLoss:
    """Weighted sums divided by counts over the whole step, so that any split of it agrees."""

    objective: Objective
    num_predictions: int
    """predicted tokens of the step over all micro-batches and processes"""
    num_pairs: int
    """labelled pairs of the step; 0 without a sentence task"""
    layers: int
    device: torch.device
    precision: Precision = "float32"
    """of the matrix products"""

    @classmethod
    def of(
        cls, config: PretrainConfig, predictions: int, pairs: int, layers: int, device: torch.device
    ) -> PretrainingLoss:
        """The loss of a run in a step with so many predicted tokens and pairs."""
        return cls(config.objective, predictions, pairs, layers, device, config.precision)

    def __call__(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss to differentiate, and the sums named in ``STATISTICS``, float64 [4]."""
        labels = torch.from_numpy(batch.sentence_labels).to(self.device)
        has_pairs = self.num_pairs > 0
        with autocast(self.precision, self.device):
            out = model(
                *inputs_of(batch, self.device),
                torch.from_numpy(batch.masked_positions).to(self.device),
                torch.from_numpy(batch.masked_labels).to(self.device),
                labels if has_pairs else None,
                self.layers,
            )
        loss = out.mlm_loss_sum * (self.objective.mlm_weight / max(1, self.num_predictions))
        sentence_sum, sentence_right = torch.zeros(2, device=self.device).unbind()
        if has_pairs:
            sentence_sum = out.sentence_loss_sum
            loss = loss + sentence_sum * (self.objective.sentence_weight / self.num_pairs)
            sentence_right = (out.sentence_logits_B2.argmax(-1) == labels).sum()
        sums = (out.mlm_loss_sum, out.mlm_correct, sentence_sum, sentence_right)
        return loss, torch.stack([value.detach().double() for value in sums])
