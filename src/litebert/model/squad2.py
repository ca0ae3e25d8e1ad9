"""The paper's SQuAD 2.0 head: start, end given the start, answerability, and a small beam."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from litebert.model.config import ModelConfig
from litebert.model.encoder import HeadInputs
from litebert.model.head_table import BEAM
from litebert.model.heads import TaskModel
from litebert.model.layers import LayerNorm, Linear, at_least_float32, initialize

_MASKED_LOGIT = -1e30
"""Score of a position that cannot bound an answer; finite, so that nothing becomes NaN."""


class Squad2Training(NamedTuple):
    """Given the gold start: log-probabilities of each start and end, logit of no answer, loss if all gold is given."""

    start_log_probs_BS: Tensor
    end_log_probs_BS: Tensor
    answer_logits_B: Tensor
    loss: Tensor | None


class Squad2Prediction(NamedTuple):
    """The beam: K best starts, and for each of them K best ends (K at most S), and the logit of no answer.

    Log-probabilities, best first, and their int64 positions; [b, i, j] is the j-th best end given the i-th best start.
    """

    start_top_log_probs_BK: Tensor
    start_top_index_BK: Tensor
    end_top_log_probs_BKK: Tensor
    end_top_index_BKK: Tensor
    answer_logits_B: Tensor


class Squad2Model(TaskModel):
    """Encoder with the SQuAD 2.0 head of the official code (in the manner of XLNet)."""

    def __init__(self, config: ModelConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, generator)
        hidden = config.hidden_size
        self.start = Linear(hidden, 1)
        self.end_hidden = Linear(2 * hidden, hidden)
        self.end_norm = LayerNorm(hidden, eps=config.layer_norm_eps)
        self.end = Linear(hidden, 1)
        self.answer_hidden = Linear(2 * hidden, hidden)
        self.answer = Linear(hidden, 1, bias=False)
        for part in list(self.children())[1:]:  # the encoder has its weights
            initialize(part, config.initializer_range, generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        p_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        impossible: Tensor | None = None,
        num_layers: int | None = None,
    ) -> Squad2Training | Squad2Prediction:
        """Training outputs with gold starts (int64), the beam without; a loss with ends and `impossible` (0 or 1) too.

        `p_mask` is 1 (true) where no answer may start or end: question, separators, padding.
        """
        sequence_BSH = self.states(HeadInputs(input_ids, attention_mask, token_type_ids), num_layers)
        if start_positions is None:
            return self._beam(sequence_BSH, p_mask)
        return self._given_starts(sequence_BSH, p_mask, start_positions, end_positions, impossible)

    def read(self, states: Tensor, inputs: HeadInputs) -> dict[str, Tensor]:
        """The beam by the names of its fields without their shapes."""
        beam = self._beam(states, inputs.forbidden_RS)
        return {name.rpartition("_")[0]: tensor for name, tensor in beam._asdict().items()}

    def task_loss(self, inputs: HeadInputs, targets: Tensor, num_layers: int | None = None) -> Tensor:
        """The loss given the gold [B, 3]: start, end, whether there is no answer."""
        states = self.states(inputs, num_layers)
        loss = self._given_starts(states, inputs.forbidden_RS, *targets.unbind(1)).loss
        assert loss is not None, "all the gold is given"
        return loss

    def _beam(self, sequence_BSH: Tensor, p_mask: Tensor | None) -> Squad2Prediction:
        start_log_probs_BS, answer_logits_B = self._starts(sequence_BSH, p_mask)
        beam = min(BEAM, sequence_BSH.shape[1])
        starts = start_log_probs_BS.topk(beam, dim=-1)
        ends = self._end_log_probs(sequence_BSH, starts.indices, p_mask).topk(beam, dim=-1)
        return Squad2Prediction(*starts, *ends, answer_logits_B)

    def _given_starts(
        self,
        sequence_BSH: Tensor,
        p_mask: Tensor | None,
        start_positions: Tensor,
        end_positions: Tensor | None,
        impossible: Tensor | None,
    ) -> Squad2Training:
        start_log_probs_BS, answer_logits_B = self._starts(sequence_BSH, p_mask)
        end_log_probs_BS = self._end_log_probs(sequence_BSH, start_positions[:, None], p_mask).squeeze(1)
        out = Squad2Training(start_log_probs_BS, end_log_probs_BS, answer_logits_B, None)
        if end_positions is None or impossible is None:
            return out
        # Half the mean of start and end loss, half the answerability loss, as official.
        start_loss = F.nll_loss(start_log_probs_BS, start_positions)
        end_loss = F.nll_loss(end_log_probs_BS, end_positions)
        logits_B = at_least_float32(answer_logits_B)
        answer_loss = F.binary_cross_entropy_with_logits(logits_B, impossible.to(logits_B.dtype))
        return out._replace(loss=(start_loss + end_loss) / 2 + answer_loss / 2)

    def _starts(self, sequence_BSH: Tensor, p_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-probability of each start; [B]: logit of no answer, from the expected start and `[CLS]`."""
        log_probs_BS = _log_probs(self.start(sequence_BSH).squeeze(-1), p_mask)
        weights_B1S = log_probs_BS.exp()[:, None].to(sequence_BSH.dtype)
        expected_BH = torch.bmm(weights_B1S, sequence_BSH).squeeze(1)
        features_BH = torch.tanh(self.answer_hidden(torch.cat((expected_BH, sequence_BSH[:, 0]), dim=-1)))
        kept_BH = F.dropout(features_BH, self.config.classifier_dropout, self.training)
        return log_probs_BS, self.answer(kept_BH).squeeze(-1)

    def _end_log_probs(self, sequence_BSH: Tensor, starts_BK: Tensor, p_mask: Tensor | None) -> Tensor:
        """[B, K, S]: log-probability of each end, given each start.

        The map of [h_i; h_start] is the sum of two maps, so the pairs are never written out before it.
        """
        hidden = self.config.hidden_size
        start_BKH = sequence_BSH.gather(1, starts_BK[:, :, None].expand(-1, -1, hidden))
        here_HH, start_HH = torch.split(self.end_hidden.weight, hidden, dim=1)
        here_BSH = F.linear(sequence_BSH, here_HH, self.end_hidden.bias)
        pair_BKSH = here_BSH[:, None] + F.linear(start_BKH, start_HH)[:, :, None]
        logits_BKS = self.end(self.end_norm(torch.tanh(pair_BKSH))).squeeze(-1)
        return _log_probs(logits_BKS, None if p_mask is None else p_mask[:, None])


def _log_probs(logits: Tensor, blocked: Tensor | None) -> Tensor:
    """Log-softmax over the last dimension, blocked positions (true or 1) out of the running."""
    logits = at_least_float32(logits)
    if blocked is not None:
        logits = logits.masked_fill(blocked.bool(), _MASKED_LOGIT)
    return F.log_softmax(logits, dim=-1)
