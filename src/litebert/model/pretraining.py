"""The pretraining model: masked words and the sentence relation, as sums of losses."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.common.errors import InputError
from litebert.model.config import IGNORED_LABEL, ModelConfig
from litebert.model.encoder import Encoder, HeadInputs, first_rows
from litebert.model.layers import ACTIVATIONS, LayerNorm, Linear, at_least_float32, initialize
from litebert.model.losses import vocabulary_loss


class PretrainingOutput(NamedTuple):
    """Sums, so that the caller can divide by counts over all micro-batches and ranks.

    A scalar is there if what it compares with is given.
    """

    sentence_logits_B2: Tensor
    """0 = in order, 1 = swapped (or random, for NSP)"""
    mlm_logits_MV: Tensor | None = None
    """at the asked positions, when no labels are given"""
    mlm_loss_sum: Tensor | None = None
    mlm_count: Tensor | None = None
    """int64: labels that count"""
    mlm_correct: Tensor | None = None
    """int64: labels that scored highest"""
    sentence_loss_sum: Tensor | None = None
    bag_loss_sum: Tensor | None = None
    vector_loss_sum: Tensor | None = None
    """of one less the cosines with a teacher's vectors"""

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
    """Predicts words through E with the word table as decoder."""

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
        for head in (self.mlm, self.sentence):
            initialize(head, config.initializer_range, generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        masked_positions_M: Tensor | None = None,
        masked_labels_M: Tensor | None = None,
        sentence_labels_B: Tensor | None = None,
        num_layers: int | None = None,
        bag_words_BS: Tensor | None = None,
        bag_shares_BS: Tensor | None = None,
        first_position: int = 0,
        vectors_BH: Tensor | None = None,
    ) -> PretrainingOutput:
        """Predict masked words and the sentence relation.

        Args:
            input_ids, attention_mask, token_type_ids, num_layers, first_position: as in `Encoder`.
            masked_positions_M: int64 indices into the flattened B * S tokens.
            masked_labels_M: int64 words at these positions; -100 does not count.
            sentence_labels_B: int64; leave out to train without a sentence loss.
            bag_words_BS: int64 words that [CLS] alone has to predict: the bag-of-words loss.
            bag_shares_BS: float, what each of them counts; a row of zeros has no loss.
            vectors_BH: float, of length 1: the direction that [CLS] should have, as a teacher's
                vector of the text has it; a row of zeros has no loss.
        """
        if masked_labels_M is not None and masked_positions_M is None:
            raise InputError("masked labels need masked_positions_M.")
        states_RH = self.encoder(
            input_ids,
            attention_mask,
            token_type_ids,
            num_layers,
            # The last block computes only these, for no others are read.
            rows_R=self.rows(HeadInputs(input_ids, masked_M=masked_positions_M)),
            first_position=first_position,
        ).sequence_BSH
        first_BH, hidden_MH = states_RH[: len(input_ids)], states_RH[len(input_ids) :]
        out = PretrainingOutput(self.sentence(self.encoder.pool_first(first_BH)))
        if sentence_labels_B is not None:
            wide_B2 = at_least_float32(out.sentence_logits_B2)
            loss_sum = F.cross_entropy(wide_B2, sentence_labels_B, reduction="sum")
            out = out._replace(sentence_loss_sum=loss_sum)
        if bag_words_BS is not None and bag_shares_BS is not None:
            logits_BV = at_least_float32(self._words(self.mlm(first_BH)))
            losses_BS = logits_BV.logsumexp(1, keepdim=True) - logits_BV.gather(1, bag_words_BS)
            out = out._replace(bag_loss_sum=(losses_BS * bag_shares_BS).sum())
        if vectors_BH is not None:
            own_BH = F.normalize(at_least_float32(first_BH), dim=-1)
            out = out._replace(vector_loss_sum=((vectors_BH - own_BH) * vectors_BH).sum())
        if masked_positions_M is None:
            return out
        hidden_ME = self.mlm(hidden_MH)
        if masked_labels_M is None:
            return out._replace(mlm_logits_MV=self._words(hidden_ME))
        table_VE = self.encoder.embeddings.word.weight
        words = vocabulary_loss(hidden_ME, table_VE, self.mlm.bias, masked_labels_M)
        return out._replace(
            mlm_loss_sum=words.loss_sum,
            mlm_correct=words.num_correct,
            mlm_count=(masked_labels_M != IGNORED_LABEL).sum(),
        )

    def rows(self, inputs: HeadInputs) -> Tensor:
        """Where the first tokens are, then the masked ones."""
        firsts_B = first_rows(inputs.ids_RS)
        return firsts_B if inputs.masked_M is None else torch.cat((firsts_B, inputs.masked_M))

    def read(self, states_RH: Tensor, inputs: HeadInputs) -> dict[str, Tensor]:
        """Pooled vectors, sentence order and words by their names in the table of heads."""
        batch = len(inputs.ids_RS)
        pooled_BH = self.encoder.pool_first(states_RH[:batch])
        outputs = {"pooler_output": pooled_BH, "sop_logits": self.sentence(pooled_BH)}
        if inputs.masked_M is not None:
            outputs["masked_logits"] = self._words(self.mlm(states_RH[batch:]))
        return outputs

    def _words(self, hidden_ME: Tensor) -> Tensor:
        """[M, V] through the word table."""
        return F.linear(hidden_ME, self.encoder.embeddings.word.weight, self.mlm.bias)
