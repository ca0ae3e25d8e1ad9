"""Models with task heads: classification, regression, choice, tokens, answer spans."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.common.errors import ConfigError
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder, first_rows
from litebert.model.layers import Linear, at_least_float32, initialize
from litebert.model.losses import IGNORED_LABEL
from litebert.model.pretraining import PretrainingModel, PretrainingOutput
from litebert.model.squad2 import Squad2Model, Squad2Prediction, Squad2Training

__all__ = [
    "ClassifierOutput",
    "MultipleChoice",
    "PretrainingModel",
    "PretrainingOutput",
    "RegressorOutput",
    "SequenceClassifier",
    "SequenceRegressor",
    "SpanExtractor",
    "SpanOutput",
    "Squad2Model",
    "Squad2Prediction",
    "Squad2Training",
    "TokenClassifier",
]


class ClassifierOutput(NamedTuple):
    """Scores of classes."""

    logits: Tensor
    """[B, labels]; [B, choices] for a choice; [B, S, labels] for tokens"""
    loss: Tensor | None
    """scalar: mean cross-entropy over the labels that count"""


class RegressorOutput(NamedTuple):
    """One number per example."""

    scores_B: Tensor
    """predicted value"""
    loss: Tensor | None
    """scalar: mean squared error"""


class SpanOutput(NamedTuple):
    """Scores of answer boundaries."""

    start_logits_BS: Tensor
    """how well an answer starts here"""
    end_logits_BS: Tensor
    """how well an answer ends here"""
    loss: Tensor | None
    """scalar: mean of the start and the end loss"""


def _mean_cross_entropy(logits: Tensor, labels: Tensor | None) -> Tensor | None:
    """Mean over the rows of logits [..., classes] whose label is not -100; 0 without any."""
    if labels is None:
        return None
    flat = at_least_float32(logits).flatten(0, -2)
    loss_sum = F.cross_entropy(flat, labels.flatten(), reduction="sum", ignore_index=IGNORED_LABEL)
    return loss_sum / (labels != IGNORED_LABEL).sum().clamp(min=1)


class _TaskModel(nn.Module):
    """An encoder with one linear map `classifier` on its output."""

    def __init__(
        self, config: ModelConfig, num_outputs: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        if num_outputs < 1:
            raise ConfigError(f"num_labels is {num_outputs}: a head needs at least 1 label.")
        self.config = config
        self.encoder = Encoder(config, generator=generator)
        self.classifier = Linear(config.hidden_size, num_outputs)
        initialize(self.classifier, config.initializer_range, generator)

    def _pooled(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        num_layers: int | None,
    ) -> Tensor:
        """[B, H] of sequences [B, S]; the last block runs at the first tokens only."""
        first_BH = self.encoder(
            input_ids, attention_mask, token_type_ids, num_layers, rows_R=first_rows(input_ids)
        ).sequence_BSH
        return self.encoder.pool_first(first_BH)

    def _classify(self, features: Tensor) -> Tensor:
        rate = self.config.classifier_dropout
        logits: Tensor = self.classifier(F.dropout(features, rate, self.training))
        return logits


class SequenceClassifier(_TaskModel):
    """Classes of a text or a pair of texts.

    Example:
        >>> model = SequenceClassifier(ModelConfig(vocab_size=100, hidden_size=64), num_labels=3)
        >>> model(torch.tensor([[2, 7, 3]])).logits.shape
        torch.Size([1, 3])
    """

    def __init__(
        self, config: ModelConfig, num_labels: int, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(config, num_labels, generator)
        self.num_labels = num_labels

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_layers: int | None = None,
    ) -> ClassifierOutput:
        """Logits [B, num_labels] and, with int64 labels, the mean cross-entropy."""
        pooled_BH = self._pooled(input_ids, attention_mask, token_type_ids, num_layers)
        logits = self._classify(pooled_BH)
        return ClassifierOutput(logits, _mean_cross_entropy(logits, labels))


class SequenceRegressor(_TaskModel):
    """A number for a text or a pair of texts, such as a similarity.

    Example:
        >>> model = SequenceRegressor(ModelConfig(vocab_size=100, hidden_size=64))
        >>> model(torch.tensor([[2, 7, 3]])).scores_B.shape
        torch.Size([1])
    """

    def __init__(self, config: ModelConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, 1, generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_layers: int | None = None,
    ) -> RegressorOutput:
        """Scores [B] and, with float labels, the mean squared error."""
        pooled_BH = self._pooled(input_ids, attention_mask, token_type_ids, num_layers)
        scores_B = self._classify(pooled_BH).squeeze(-1)
        wide_B = at_least_float32(scores_B)
        loss = None if labels is None else F.mse_loss(wide_B, labels.to(wide_B.dtype))
        return RegressorOutput(scores_B, loss)


class MultipleChoice(_TaskModel):
    """The best of several texts, such as the answers to a question.

    Example:
        >>> model = MultipleChoice(ModelConfig(vocab_size=100, hidden_size=64))
        >>> model(torch.tensor([[[2, 7, 3], [2, 8, 3]]])).logits.shape
        torch.Size([1, 2])
    """

    def __init__(self, config: ModelConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, 1, generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_layers: int | None = None,
    ) -> ClassifierOutput:
        """Logits [B, choices] and, with int64 labels, the mean cross-entropy."""
        batch, choices, _ = input_ids.shape
        pooled = self._pooled(
            input_ids.flatten(0, 1),
            None if attention_mask is None else attention_mask.flatten(0, 1),
            None if token_type_ids is None else token_type_ids.flatten(0, 1),
            num_layers,
        )
        logits_BC = self._classify(pooled).view(batch, choices)
        return ClassifierOutput(logits_BC, _mean_cross_entropy(logits_BC, labels))


class TokenClassifier(_TaskModel):
    """A class for every token, such as named entities.

    Example:
        >>> model = TokenClassifier(ModelConfig(vocab_size=100, hidden_size=64), num_labels=5)
        >>> model(torch.tensor([[2, 7, 3]])).logits.shape
        torch.Size([1, 3, 5])
    """

    def __init__(
        self, config: ModelConfig, num_labels: int, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(config, num_labels, generator)
        self.num_labels = num_labels

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_layers: int | None = None,
    ) -> ClassifierOutput:
        """Logits [B, S, num_labels]; the loss is the mean over tokens not labelled -100."""
        sequence_BSH = self.encoder(
            input_ids, attention_mask, token_type_ids, num_layers
        ).sequence_BSH
        logits = self._classify(sequence_BSH)
        return ClassifierOutput(logits, _mean_cross_entropy(logits, labels))


class SpanExtractor(nn.Module):
    """Start and end of an answer, scored independently (SQuAD v1.1).

    The official head has no dropout, the paper's table says 0.1: `classifier_dropout` decides.

    Example:
        >>> model = SpanExtractor(ModelConfig(vocab_size=100, hidden_size=64))
        >>> model(torch.tensor([[2, 7, 3]])).start_logits_BS.shape
        torch.Size([1, 3])
    """

    def __init__(self, config: ModelConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, generator=generator)
        self.span = Linear(config.hidden_size, 2)
        initialize(self.span, config.initializer_range, generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        num_layers: int | None = None,
    ) -> SpanOutput:
        """Boundary logits [B, S]; gold positions outside the sequence do not count."""
        sequence_BSH = self.encoder(
            input_ids, attention_mask, token_type_ids, num_layers
        ).sequence_BSH
        kept_BSH = F.dropout(sequence_BSH, self.config.classifier_dropout, self.training)
        start_BS, end_BS = self.span(kept_BSH).unbind(-1)
        if start_positions is None or end_positions is None:
            return SpanOutput(start_BS, end_BS, None)
        loss = (
            _boundary_loss(start_BS, start_positions) + _boundary_loss(end_BS, end_positions)
        ) / 2
        return SpanOutput(start_BS, end_BS, loss)


def _boundary_loss(logits_BS: Tensor, positions_B: Tensor) -> Tensor:
    """Mean cross-entropy over the gold positions that lie inside the sequence."""
    length = logits_BS.shape[1]
    inside_B = (positions_B >= 0) & (positions_B < length)
    loss = _mean_cross_entropy(logits_BS, positions_B.masked_fill(~inside_B, IGNORED_LABEL))
    assert loss is not None, "labels were given"
    return loss
