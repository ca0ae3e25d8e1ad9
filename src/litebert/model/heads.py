"""Models with heads: pretraining, classification, regression, choice, tokens, answer spans."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.common.errors import ConfigError, InputError
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.layers import ACTIVATIONS, LayerNorm, Linear, at_least_float32, initialize
from litebert.model.losses import IGNORED_LABEL, vocabulary_loss
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


class PretrainingOutput(NamedTuple):
    """Sums, so that the caller can divide by counts over all micro-batches and ranks."""

    sentence_logits_B2: Tensor
    """0 = in order, 1 = swapped (or random, for NSP)"""
    mlm_logits_MV: Tensor | None = None
    """at the asked positions, when no labels are given"""
    mlm_loss_sum: Tensor | None = None
    """scalar: sum of the masked-word losses, when labels are given"""
    mlm_count: Tensor | None = None
    """scalar int64: labels that count"""
    mlm_correct: Tensor | None = None
    """scalar int64: labels that scored highest"""
    sentence_loss_sum: Tensor | None = None
    """scalar: sum of the sentence losses, when labels are given"""

    @property
    def loss(self) -> Tensor:
        """Mean masked-word loss + mean sentence loss, of those that have labels."""
        loss = self.sentence_logits_B2.new_zeros(())
        if self.mlm_loss_sum is not None and self.mlm_count is not None:
            loss = loss + self.mlm_loss_sum / self.mlm_count.clamp(min=1)
        if self.sentence_loss_sum is not None:
            loss = loss + self.sentence_loss_sum / len(self.sentence_logits_B2)
        return loss


class MaskedWordHead(nn.Module):
    """Predicts words through E with the word table as decoder.

    Example:
        >>> head = MaskedWordHead(ModelConfig(vocab_size=50))
        >>> head(torch.randn(7, 768)).shape
        torch.Size([7, 128])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.transform = Linear(config.hidden_size, config.embedding_size)
        self.norm = LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.empty(config.vocab_size))
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, hidden_MH: Tensor) -> Tensor:
        """[M, H] -> [M, E], to be compared with the word table."""
        out_ME: Tensor = self.norm(self.activation(self.transform(hidden_MH)))
        return out_ME


class PretrainingModel(nn.Module):
    """Encoder with the masked-word and the sentence head (order or next sentence).

    Example:
        >>> model = PretrainingModel(ModelConfig(vocab_size=100, hidden_size=64, num_layers=2))
        >>> ids = torch.tensor([[2, 4, 7, 3]])
        >>> where, words = torch.tensor([1]), torch.tensor([9])
        >>> out = model(ids, masked_positions_M=where, masked_labels_M=words)
        >>> out.loss.backward()
    """

    def __init__(self, config: ModelConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, generator=generator)
        self.mlm = MaskedWordHead(config)
        self.sentence = Linear(config.hidden_size, 2)
        initialize(self.mlm, config.initializer_range, generator)
        initialize(self.sentence, config.initializer_range, generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        masked_positions_M: Tensor | None = None,
        masked_labels_M: Tensor | None = None,
        sentence_labels_B: Tensor | None = None,
        num_layers: int | None = None,
        all_positions: bool = False,
    ) -> PretrainingOutput:
        """Predict masked words and the sentence relation.

        Args:
            input_ids, attention_mask, token_type_ids, num_layers: as in `Encoder`.
            masked_positions_M: int64 indices into the flattened B * S tokens.
            masked_labels_M: int64 words at these positions; -100 does not count.
            sentence_labels_B: int64; leave out to train without a sentence loss.
            all_positions: predict at every token (M = B * S) instead: large and slow.
        """
        if masked_labels_M is not None and masked_positions_M is None and not all_positions:
            raise InputError("masked labels need masked_positions_M, or all_positions=True.")
        sequence_BSH = self.encoder(
            input_ids, attention_mask, token_type_ids, num_layers
        ).sequence_BSH
        sentence_logits_B2 = self.sentence(self.encoder.pool(sequence_BSH))
        out = PretrainingOutput(sentence_logits_B2)
        if sentence_labels_B is not None:
            wide_B2 = at_least_float32(sentence_logits_B2)
            out = out._replace(
                sentence_loss_sum=F.cross_entropy(wide_B2, sentence_labels_B, reduction="sum")
            )
        hidden_MH = sequence_BSH.flatten(0, 1)
        if not all_positions:
            if masked_positions_M is None:
                return out
            hidden_MH = hidden_MH.index_select(0, masked_positions_M)
        return self._predict_words(out, self.mlm(hidden_MH), masked_labels_M)

    def _predict_words(
        self, out: PretrainingOutput, hidden_ME: Tensor, labels_M: Tensor | None
    ) -> PretrainingOutput:
        table_VE = self.encoder.embeddings.word.weight
        if labels_M is None:
            return out._replace(mlm_logits_MV=F.linear(hidden_ME, table_VE, self.mlm.bias))
        words = vocabulary_loss(hidden_ME, table_VE, self.mlm.bias, labels_M)
        return out._replace(
            mlm_loss_sum=words.loss_sum,
            mlm_correct=words.num_correct,
            mlm_count=(labels_M != IGNORED_LABEL).sum(),
        )


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

    def _sequence(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        num_layers: int | None,
    ) -> Tensor:
        sequence_BSH: Tensor = self.encoder(
            input_ids, attention_mask, token_type_ids, num_layers
        ).sequence_BSH
        return sequence_BSH

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
        sequence_BSH = self._sequence(input_ids, attention_mask, token_type_ids, num_layers)
        logits = self._classify(self.encoder.pool(sequence_BSH))
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
        sequence_BSH = self._sequence(input_ids, attention_mask, token_type_ids, num_layers)
        scores_B = self._classify(self.encoder.pool(sequence_BSH)).squeeze(-1)
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
        sequence = self._sequence(
            input_ids.flatten(0, 1),
            None if attention_mask is None else attention_mask.flatten(0, 1),
            None if token_type_ids is None else token_type_ids.flatten(0, 1),
            num_layers,
        )
        logits_BC = self._classify(self.encoder.pool(sequence)).view(batch, choices)
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
        sequence_BSH = self._sequence(input_ids, attention_mask, token_type_ids, num_layers)
        logits = self._classify(sequence_BSH)
        return ClassifierOutput(logits, _mean_cross_entropy(logits, labels))


class SpanExtractor(nn.Module):
    """Start and end of an answer, scored independently (SQuAD v1.1; no dropout, as official).

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
        start_BS, end_BS = self.span(sequence_BSH).unbind(-1)
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
