"""LAMB with the official arithmetic: AdamW's direction times a trust ratio per tensor."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from litebert.optim.adamw import AdamW, Group, local_shards


class Lamb(AdamW):
    """LAMB as ALBERT was trained with (spec 4.2): identity phi, no clipping of the ratio.

    With AdamW's direction ``u``, each logical tensor moves by ``-lr * r * u`` where
    ``r = |w| / |u|`` if both norms are positive, else 1. Sharded tensors (DTensor) have their
    norms reduced over all shards first, so the ratio is that of the whole tensor.

    A group may set ``adapt=False``: no trust ratio, the official rule for biases and norms.
    ``max_trust_ratio`` bounds the ratio (the official code does not); the rest is AdamW's.
    """

    _is_element_wise = False  # the trust ratio needs whole tensors

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        *,
        bias_correction: bool = False,
        max_trust_ratio: float | None = None,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, bias_correction=bias_correction)
        self.max_trust_ratio = max_trust_ratio

    def _scale(self, params: list[Tensor], updates: list[Tensor], group: Group) -> None:
        if not group.get("adapt", True):
            return
        weight_norms, update_norms = _norms(params), _norms(updates)
        both_positive = (weight_norms > 0) & (update_norms > 0)
        ratios = torch.where(both_positive, weight_norms / update_norms, 1.0)
        if self.max_trust_ratio is not None:
            ratios = ratios.clamp(max=self.max_trust_ratio)
        torch._foreach_mul_(local_shards(updates), list(ratios.unbind()))


def _norms(tensors: list[Tensor]) -> Tensor:
    """The L2 norm of each whole tensor, float32 [len(tensors)]; shards are reduced first."""
    norms = torch._foreach_norm(tensors)
    whole = [cast(Any, n).full_tensor() if hasattr(n, "full_tensor") else n for n in norms]
    return torch.stack(whole).float()
