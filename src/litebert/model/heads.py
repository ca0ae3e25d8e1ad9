"""Models with task heads: classification, regression, choice, tokens, answer spans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.common.errors import ConfigError
from litebert.model.config import IGNORED_LABEL, ModelConfig
from litebert.model.encoder import Encoder, HeadInputs, first_rows
from litebert.model.head_table import HEADS, Head
from litebert.model.layers import Linear, at_least_float32, initialize
from litebert.model.pretraining import PretrainingModel as PretrainingModel


class ClassifierOutput(NamedTuple):
    """What a head of one output says, and the mean loss over the labels that count."""

    logits: Tensor  # [B, labels]; [B, 1] for a number; [B, choices] for a choice; [B, S, labels] for tokens
    loss: Tensor | None


class SpanOutput(NamedTuple):
    """How well an answer starts and ends at each token, and the mean of the start and the end loss."""

    start_logits_BS: Tensor
    end_logits_BS: Tensor
    loss: Tensor | None


def mean_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the rows of logits [..., classes] whose label is not -100; 0 without any."""
    flat = at_least_float32(logits).flatten(0, -2)
    loss_sum = F.cross_entropy(flat, labels.flatten(), reduction="sum", ignore_index=IGNORED_LABEL)
    return loss_sum / (labels != IGNORED_LABEL).sum().clamp(min=1)


def teacher_loss(logits: Tensor, teacher: Tensor, temperature: float, targets: Tensor) -> Tensor:
    """How far logits [B, ...] are from a teacher's, by what the targets are: a mean over B.

    Classes: the divergence of softened probabilities, times the temperature squared, which leaves gradients at the size
    of those of labels (Hinton et al. 2015). Flags: the same for each. Scores: the squared error.
    """
    wide = at_least_float32(logits)
    if targets.ndim == 1 and targets.is_floating_point():
        return F.mse_loss(wide.flatten(), teacher.flatten())
    square = temperature**2
    if targets.is_floating_point():
        probability = (teacher / temperature).sigmoid()
        return F.binary_cross_entropy_with_logits(wide / temperature, probability) * square
    said, wanted = (x.div(temperature).log_softmax(-1) for x in (wide, teacher))
    return F.kl_div(said, wanted, reduction="batchmean", log_target=True) * square


def mean_of_tokens(states_RSH: Tensor, mask_RS: Tensor | None) -> Tensor:
    """[R, S, H] -> [R, H]: the mean over the tokens of each row that are not padding."""
    if mask_RS is None:
        return states_RSH.mean(1)
    kept_RS1 = mask_RS.to(states_RSH.dtype)[:, :, None]
    return (states_RSH * kept_RS1).sum(1) / kept_RS1.sum(1).clamp(min=1)


class TaskModel(nn.Module, ABC):
    """An encoder with the head of a task.

    Training asks for `task_loss`, prediction for `named_outputs`; who has the encoder's states
    already, from a batch without padding say, calls `rows` and `read` alone.
    """

    def __init__(self, config: ModelConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, generator=generator)

    def rows(self, inputs: HeadInputs) -> Tensor | None:
        """The places among the flattened R * S tokens that the head reads; None: all."""
        return None

    @abstractmethod
    def read(self, states: Tensor, inputs: HeadInputs) -> dict[str, Tensor]:
        """Outputs by their names in the table; `states` is [rows, H] at `rows`, else [R, S, H]."""

    @abstractmethod
    def task_loss(self, inputs: HeadInputs, targets: Tensor, num_layers: int | None = None) -> Tensor:
        """The mean loss over the labels of a batch; `targets` as in `tasks.base.Feature`."""

    def named_outputs(self, inputs: HeadInputs, num_layers: int | None = None) -> dict[str, Tensor]:
        """Outputs by their names in the table of heads; `num_layers` runs fewer layers."""
        return self.read(self.states(inputs, num_layers), inputs)

    def states(self, inputs: HeadInputs, num_layers: int | None = None) -> Tensor:
        """The encoder's output at the rows that the head reads, where the last block runs."""
        states: Tensor = self.encoder(*inputs[:3], num_layers, rows_R=self.rows(inputs)).sequence_BSH
        return states


class LinearHead(TaskModel):
    """A head that is one linear map, of the pooled vector or of each token, as its row says.

    A head without dropout in the official code (spans) has the paper's: `classifier_dropout` decides.
    """

    head: ClassVar[Head]

    def __init__(self, config: ModelConfig, num_labels: int = 2, *, generator: torch.Generator | None = None) -> None:
        """Draw the weights; only a head with classes asks how many."""
        super().__init__(config, generator)
        self.row = HEADS[self.head]
        if num_labels < 1:
            raise ConfigError(f"num_labels is {num_labels}: a head needs at least 1 label.")
        num_outputs = num_labels if self.row.has_classes else len(self.row.outputs)
        linear = Linear(config.hidden_size, num_outputs)
        self.add_module(self.row.linear, linear)
        initialize(linear, config.initializer_range, generator)

    @abstractmethod
    def loss(self, outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        """The mean loss of named outputs."""

    def task_loss(self, inputs: HeadInputs, targets: Tensor, num_layers: int | None = None) -> Tensor:
        """The mean loss over the labels of a batch."""
        return self.loss(self.named_outputs(inputs, num_layers), targets)

    def rows(self, inputs: HeadInputs) -> Tensor | None:
        """The first tokens, for a head that reads the pooled vector of them."""
        return first_rows(inputs.ids_RS) if self.row.pooled and self.config.pooling == "cls" else None

    def unpooled(self, states: Tensor, inputs: HeadInputs) -> Tensor:
        """What the pooler reads, [R, H]: the states of the first tokens, or the mean of all."""
        return mean_of_tokens(states, inputs.mask_RS) if self.config.pooling == "mean" else states

    def read(self, states: Tensor, inputs: HeadInputs) -> dict[str, Tensor]:
        """Outputs by name: all columns in one, or one column each."""
        if self.row.pooled:
            states = self.encoder.pool_first(self.unpooled(states, inputs))
        kept = F.dropout(states, self.config.classifier_dropout, self.training)
        scores: Tensor = self.get_submodule(self.row.linear)(kept)
        names = self.row.output_names
        if len(names) > 1:
            return dict(zip(names, scores.unbind(-1), strict=True))
        return {names[0]: scores.view(-1, inputs.num_choices) if self.row.choices else scores}


class ScoreHead(LinearHead):
    """A linear head of one output."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_layers: int | None = None,
    ) -> ClassifierOutput:
        """Logits and, with labels, the loss; ids are [B, S], [B, choices, S] for a choice."""
        num_choices = input_ids.shape[1] if self.row.choices else 1
        inputs = HeadInputs(input_ids, attention_mask, token_type_ids, num_choices=num_choices)
        if self.row.choices:
            mask, segments = (part if part is None else part.flatten(0, 1) for part in inputs[1:3])
            inputs = HeadInputs(input_ids.flatten(0, 1), mask, segments, num_choices=num_choices)
        outputs = self.named_outputs(inputs, num_layers)
        (logits,) = outputs.values()
        return ClassifierOutput(logits, None if labels is None else self.loss(outputs, labels))


class SequenceClassifier(ScoreHead):
    """Classes of a text or a pair of texts.

    >>> model = SequenceClassifier(ModelConfig(vocab_size=100, hidden_size=64), num_labels=3)
    >>> model(torch.tensor([[2, 7, 3]])).logits.shape
    torch.Size([1, 3])
    """

    head: ClassVar[Head] = "classification"

    def loss(self, outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        """Cross-entropy of int64 labels; float32 flags [B, num_labels] may be several a text."""
        (logits,) = outputs.values()
        if targets.is_floating_point():
            return F.binary_cross_entropy_with_logits(at_least_float32(logits), targets)
        return mean_cross_entropy(logits, targets)


class TokenClassifier(SequenceClassifier):
    """A class for every token, such as named entities; a label of -100 does not count."""

    head: ClassVar[Head] = "token_classification"


class MultipleChoice(SequenceClassifier):
    """The best of several texts, such as the answers to a question."""

    head: ClassVar[Head] = "multiple_choice"


class SequenceRegressor(ScoreHead):
    """A number for a text or a pair of texts, such as a similarity."""

    head: ClassVar[Head] = "regression"

    def loss(self, outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        """Mean squared error of float targets [B]."""
        wide_B = at_least_float32(outputs["logits"].squeeze(-1))
        return F.mse_loss(wide_B, targets.to(wide_B.dtype))


class SpanExtractor(LinearHead):
    """Start and end of an answer, scored independently (SQuAD v1.1)."""

    head: ClassVar[Head] = "span"

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
        outputs = self.named_outputs(HeadInputs(input_ids, attention_mask, token_type_ids), num_layers)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = self.loss(outputs, torch.stack((start_positions, end_positions), dim=1))
        return SpanOutput(outputs["start_logits"], outputs["end_logits"], loss)

    def loss(self, outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        """Mean of the start and the end loss for gold [B, 2 or 3]; a third column is not read."""
        outside = (targets < 0) | (targets >= outputs["start_logits"].shape[1])
        gold = targets.masked_fill(outside, IGNORED_LABEL)
        start_loss = mean_cross_entropy(outputs["start_logits"], gold[:, 0])
        return (start_loss + mean_cross_entropy(outputs["end_logits"], gold[:, 1])) / 2
