"""The pretraining loss of a micro-batch: words, sentences, bag, teacher, by global counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from litebert.data.batches.example import Batch
from litebert.dist.runtime import Precision, autocast
from litebert.model.config import IGNORED_LABEL, ModelConfig
from litebert.train.estimate import step_flops
from litebert.train.pretraining.config import Objective
from litebert.train.pretraining.curriculum import Stage

STATISTICS = (
    *("mlm_loss_sum", "mlm_correct", "sentence_loss_sum", "sentence_correct"),
    *("bag_loss_sum", "vector_loss_sum"),
)
"""What :meth:`PretrainingLoss.__call__` sums up besides the loss, in this order."""


def inputs_of(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor | None, Tensor]:
    """Ids [B, S], attention mask [B, S] (None if nothing is padded) and segments [B, S]."""
    ids = torch.from_numpy(batch.input_ids).to(device)
    segments = torch.from_numpy(batch.token_type_ids).to(device)
    mask = np.arange(ids.shape[1]) < batch.lengths[:, None]
    return ids, None if mask.all() else torch.from_numpy(mask).to(device), segments


def counts_of(batches: list[Batch]) -> tuple[int, int, int]:
    """Predicted tokens, labelled pairs and tokens; rows without an address do not count."""
    return (
        sum(len(batch.masked_labels) for batch in batches),
        sum(int((batch.sentence_labels != IGNORED_LABEL).sum()) for batch in batches),
        sum(int(batch.lengths[: len(batch.addresses)].sum()) for batch in batches),
    )


def batch_flops(shape: ModelConfig, batch: Batch, layers: int, *, has_bag: bool = False) -> float:
    """Operations of forward and backward of a batch; a bag is one more prediction a row."""
    rows, length = batch.input_ids.shape
    predictions = len(batch.masked_labels) + (rows if has_bag else 0)
    return step_flops(shape, rows, length, predictions, layers)


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
class Bag:
    """The bag-of-words loss: [CLS] predicts the words of its example (Ma et al., 2401.11248)."""

    weight: float
    num_examples: int  # of the step over all micro-batches and processes
    piece_weights_V: Tensor  # float32, see :func:`piece_weights`
    masked_only: bool = False  # only the masked words are in the bag

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """The words of each example as they were before masking, and their shares: both [B, S].

        The shares of an example sum to 1; those of a row that only stands in for one are 0.
        """
        device = self.piece_weights_V.device
        counts = np.full(batch.input_ids.shape, 0.0 if self.masked_only else 1.0, np.float32)
        counts.reshape(-1)[batch.masked_positions] = 1.0
        counts[len(batch.addresses) :] = 0.0
        words_BS = torch.from_numpy(batch.originals()).to(device)
        weights_BS = self.piece_weights_V[words_BS] * torch.from_numpy(counts).to(device)
        # A bag without words has no loss; the least weight there can be is far above 1e-9.
        shares_BS = weights_BS / weights_BS.sum(1, keepdim=True).clamp(min=1e-9)
        return {"bag_words_BS": words_BS, "bag_shares_BS": shares_BS}


def piece_weights(counts: np.ndarray, special_ids: Sequence[int], frequency: float, exponent: float = 0.5) -> Tensor:
    """How much each piece counts in a bag: min(1, (frequency / its own) ** exponent); float32 [V].

    ``counts``, int64 [V], is how often each occurs in the training text. Frequent pieces say little of an example;
    specials say nothing and get 0.
    """
    own = np.maximum(counts, 1) / max(1, counts.sum())
    weights = np.minimum(1.0, (frequency / own) ** exponent)
    weights[list(special_ids)] = 0.0
    return torch.from_numpy(weights).float()


@dataclass(frozen=True)
class PretrainingLoss:
    """Weighted sums divided by counts over the whole step, so that any split of it agrees."""

    objective: Objective
    num_predictions: int  # of the step over all micro-batches and processes, as the other numbers
    num_pairs: int  # with a label; 0 without a sentence task
    stage: Stage
    device: torch.device
    precision: Precision = "float32"
    bag: Bag | None = None
    num_taught: int = 0  # texts that a teacher has a vector for

    def __call__(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss to differentiate, and the sums named in ``STATISTICS``, float64."""
        labels = torch.from_numpy(batch.sentence_labels).to(self.device)
        has_pairs = self.num_pairs > 0
        more = {} if self.bag is None else self.bag.inputs(batch)
        if batch.vectors is not None:
            more["vectors_BH"] = torch.from_numpy(batch.vectors).to(self.device)
        with autocast(self.precision, self.device):
            out = model(
                *inputs_of(batch, self.device),
                torch.from_numpy(batch.masked_positions).to(self.device),
                torch.from_numpy(batch.masked_labels).to(self.device),
                labels if has_pairs else None,
                self.stage.layers,
                first_position=batch.first_position,
                **more,
            )
        loss = out.mlm_loss_sum * (self.objective.mlm_weight / max(1, self.num_predictions))
        zeros = torch.zeros(4, device=self.device).unbind()
        sentence_sum, sentence_right, bag_sum, vector_sum = zeros
        if has_pairs:
            sentence_sum = out.sentence_loss_sum
            weight = self.objective.sentence_weight * self.stage.sentence_factor
            loss = loss + sentence_sum * (weight / self.num_pairs)
            sentence_right = (out.sentence_logits_B2.argmax(-1) == labels).sum()
        if self.bag is not None:
            bag_sum = out.bag_loss_sum
            loss = loss + bag_sum * (self.bag.weight / max(1, self.bag.num_examples))
        if batch.vectors is not None:
            vector_sum = out.vector_loss_sum
            weight = self.objective.teacher_weight / max(1, self.num_taught)
            loss = loss + vector_sum * weight
        words = (out.mlm_loss_sum, out.mlm_correct)
        sums = (*words, sentence_sum, sentence_right, bag_sum, vector_sum)
        return loss, torch.stack([value.detach().double() for value in sums])
