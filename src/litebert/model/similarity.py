"""Sentence vectors in training: an encoder with its pooling, and the losses of a batch of them.

The losses are those of sentence-transformers over the same vectors (CosineSimilarityLoss,
CoSENTLoss, MultipleNegativesRankingLoss); a test compares them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.model.config import Pooling, ScoreLoss
from litebert.model.encoder import Encoder, HeadInputs, first_rows
from litebert.model.heads import mean_of_tokens
from litebert.model.layers import at_least_float32


class SentenceEncoder(nn.Module):
    """An encoder that learns vectors of texts; its folder is that of the encoder."""

    def __init__(
        self,
        encoder: Encoder,
        pooling: Pooling = "mean",
        score_loss: ScoreLoss = "cosine",
        temperature: float = 0.05,
        symmetric: bool = False,
    ) -> None:
        super().__init__()
        self.config, self.encoder = encoder.config, encoder
        self.pooling, self.score_loss = pooling, score_loss
        self.temperature, self.symmetric = temperature, symmetric

    def vectors(self, inputs: HeadInputs, num_layers: int | None = None) -> Tensor:
        """[R, H]: a vector of length 1 for each row."""
        is_first = self.pooling == "cls"
        rows = first_rows(inputs.ids_RS) if is_first else None
        states = self.encoder(*inputs[:3], num_layers, rows_R=rows).sequence_BSH
        pooled = states if is_first else mean_of_tokens(states, inputs.mask_RS)
        return F.normalize(at_least_float32(pooled), dim=-1)

    def loss(self, vectors_BTH: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of features of T texts: scores [B] of pairs, or the texts' numbers [B, T].

        Numbers say which texts are the same: those are right or wrong together.
        """
        if not targets.is_floating_point():
            return in_batch_loss(vectors_BTH, targets, self.temperature, self.symmetric)
        similarity_B = (vectors_BTH[:, 0] * vectors_BTH[:, 1]).sum(-1)
        if self.score_loss == "cosent":
            return cosent_loss(similarity_B, targets, self.temperature)
        return F.mse_loss(similarity_B, targets)


def match_loss(vectors_BTH: Tensor, teacher_BTH: Tensor) -> Tensor:
    """One less the mean cosine with a teacher's vectors: half their squared distance."""
    return 1 - (vectors_BTH * teacher_BTH).sum(-1).mean()


def cosent_loss(similarity_B: Tensor, scores_B: Tensor, temperature: float) -> Tensor:
    """How much pairs of a lower score are more similar than pairs of a higher one."""
    scaled_B = similarity_B / temperature
    is_lower_BB = scores_B[:, None] < scores_B[None, :]
    wrong = (scaled_B[:, None] - scaled_B[None, :])[is_lower_BB]
    return torch.logsumexp(torch.cat((wrong.new_zeros(1), wrong)), dim=0)


def in_batch_loss(vectors_BTH: Tensor, texts_BT: Tensor, temperature: float, symmetric: bool) -> Tensor:
    """Cross-entropy of finding each first text's second one among those of all, and negatives.

    The second texts and further ones (negatives) of all features are candidates, but those that
    are the same text as the right one or as the question itself. ``symmetric`` adds the way back,
    from the second text to the first ones, and takes the mean.
    """
    size = len(vectors_BTH)
    candidates_CH = vectors_BTH[:, 1:].transpose(0, 1).flatten(0, 1)
    texts_C = texts_BT[:, 1:].t().flatten()
    logits_BC = vectors_BTH[:, 0] @ candidates_CH.t() / temperature
    same_BC = (texts_C == texts_BT[:, 1:2]) | (texts_C == texts_BT[:, :1])
    places_B = torch.arange(size, device=logits_BC.device)
    same_BC[places_B, places_B] = False
    loss = F.cross_entropy(logits_BC.masked_fill(same_BC, -torch.inf), places_B)
    if not symmetric:
        return loss
    same_BB = same_BC[:, :size] | (texts_BT[:, 0] == texts_BT[:, :1])
    same_BB[places_B, places_B] = False
    back_BB = logits_BC[:, :size].masked_fill(same_BB, -torch.inf).t()
    return (loss + F.cross_entropy(back_BB, places_B)) / 2
