"""The pretraining model: masked words and the sentence relation, as sums of losses.

The masked-word loss is a cross-entropy over a large vocabulary, in slices that fit the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from litebert.common.errors import InputError
from litebert.model.config import IGNORED_LABEL, ModelConfig
from litebert.model.counts import CPU_SLICE_ELEMENTS, GPU_SLICE_ELEMENTS
from litebert.model.cpu import AutogradContext
from litebert.model.encoder import Encoder, HeadInputs, first_rows
from litebert.model.layers import ACTIVATIONS, LayerNorm, Linear, at_least_float32, initialize


class PretrainingOutput(NamedTuple):
    """Sums, so that the caller can divide by counts of all micro-batches and ranks; each if what it needs is given."""

    sentence_logits_B2: Tensor  # 0 = in order, 1 = swapped (or random, for NSP)
    mlm_logits_MV: Tensor | None = None  # at the asked positions, when no labels are given
    mlm_loss_sum: Tensor | None = None
    mlm_count: Tensor | None = None
    mlm_correct: Tensor | None = None
    """int64, of the labels that count: how many, and how many scored highest"""
    sentence_loss_sum: Tensor | None = None
    bag_loss_sum: Tensor | None = None
    vector_loss_sum: Tensor | None = None  # of one less the cosines with a teacher's vectors

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
    >>> where, words = torch.tensor([1]), torch.tensor([9])
    >>> out = model(torch.tensor([[2, 4, 7, 3]]), masked_positions_M=where, masked_labels_M=words)
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
            vectors_BH: float: the direction that [CLS] should have, as a teacher's vector of length 1; zeros: no loss.
        """
        if masked_labels_M is not None and masked_positions_M is None:
            raise InputError("masked labels need masked_positions_M.")
        rows_R = self.rows(HeadInputs(input_ids, masked_M=masked_positions_M))  # no others are read
        states_RH = self.encoder(
            input_ids, attention_mask, token_type_ids, num_layers, rows_R=rows_R, first_position=first_position
        ).sequence_BSH
        first_BH, hidden_MH = states_RH[: len(input_ids)], states_RH[len(input_ids) :]
        out = PretrainingOutput(self.sentence(self.encoder.pool_first(first_BH)))
        if sentence_labels_B is not None:
            wide_B2 = at_least_float32(out.sentence_logits_B2)
            out = out._replace(sentence_loss_sum=F.cross_entropy(wide_B2, sentence_labels_B, reduction="sum"))
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
        loss_sum, num_correct = vocabulary_loss(hidden_ME, table_VE, self.mlm.bias, masked_labels_M)
        count = (masked_labels_M != IGNORED_LABEL).sum()
        return out._replace(mlm_loss_sum=loss_sum, mlm_correct=num_correct, mlm_count=count)

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


def vocabulary_loss(hidden_ME: Tensor, table_VE: Tensor, bias_V: Tensor, labels_M: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy of hidden @ table.T + bias, in float32 at least; label -100 does not count.

    Two scalars: the differentiable sum of -log p(label), and the rows (int64) whose label no word outscores.
    """
    if torch.compiler.is_compiling():
        # A compiler fuses the plain form itself, and would unroll the loop over slices.
        logits_MV = at_least_float32(F.linear(hidden_ME, table_VE, bias_V))
        loss_sum = F.cross_entropy(logits_MV, labels_M, reduction="sum", ignore_index=IGNORED_LABEL)
        return loss_sum, (logits_MV.argmax(-1) == labels_M).sum()
    inputs = (hidden_ME, table_VE, bias_V)
    with_gradients = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    sums: tuple[Tensor, Tensor] = _SlicedLoss.apply(*inputs, labels_M, with_gradients)  # type: ignore[no-untyped-call]
    return sums


class _SlicedLoss(torch.autograd.Function):
    """Loss and gradients by slices of rows, so that [M, V] never exists.

    The gradient of a slice follows from its logits while they are in the cache, so forward computes it where needed.
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
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Loss and correctness of each row (0 and false where ignored), and gradients of the sum."""
    num_rows, num_words = len(hidden_ME), len(table_VE)
    wide = torch.promote_types(hidden_ME.dtype, torch.float32)
    budget = CPU_SLICE_ELEMENTS if hidden_ME.device.type == "cpu" else GPU_SLICE_ELEMENTS
    slice_rows = max(1, min(num_rows, budget // num_words))
    buffer = hidden_ME.new_empty((slice_rows, num_words), dtype=wide)
    counts_M = labels_M != IGNORED_LABEL
    loss_M = hidden_ME.new_empty(num_rows, dtype=wide)
    correct_M = torch.empty_like(counts_M)
    wanted = (hidden_ME, table_VE, bias_V) if with_gradients else ()
    gradients = tuple(torch.zeros_like(x, dtype=wide) for x in wanted)
    for start in range(0, num_rows, slice_rows):
        rows = slice(start, start + slice_rows)
        hidden, counts = hidden_ME[rows], counts_M[rows]
        labels = labels_M[rows, None].clamp(min=0)
        scores = buffer[: len(hidden)]
        if wide == hidden.dtype:
            torch.addmm(bias_V, hidden, table_VE.t(), out=scores)
        else:
            scores.copy_(torch.addmm(bias_V, hidden, table_VE.t()))
        label_score = scores.gather(1, labels).squeeze(1)
        best_score = scores.amax(1)
        probabilities = torch.softmax(scores, 1, out=scores)
        # log(sum(exp(scores))) through the largest probability, which cannot underflow.
        log_total = best_score - probabilities.amax(1).log()
        loss_M[rows] = (log_total - label_score) * counts
        correct_M[rows] = (label_score >= best_score) & counts
        if gradients:
            grad_hidden_ME, grad_table_VE, grad_bias_V = gradients
            grad_logits = probabilities.scatter_add_(1, labels, probabilities.new_full(labels.shape, -1.0))
            # Ignored rows are dropped on the narrow side, E.
            counted, narrow = counts.to(wide), grad_logits.to(hidden.dtype)
            _add_product(grad_table_VE, narrow.t(), hidden * counts.to(hidden.dtype)[:, None])
            grad_hidden_ME[rows] = torch.mm(narrow, table_VE) * counted[:, None]
            grad_bias_V.addmv_(grad_logits.t(), counted)
    return loss_M, correct_M, gradients


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to `total`, which may be wider."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total.add_(torch.mm(left, right))
