"""LAMB with the official arithmetic: a trust ratio per logical tensor, no bias correction."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from litebert.optim.adamw import AdamW, Group, local_shards


class Lamb(AdamW):
    """LAMB as ALBERT was trained with (spec 4.2): identity phi, no clipping of the ratio.

    With AdamW's direction ``u``, each logical tensor moves by ``-lr * r * u`` where ``r = |w| / |u|`` if both norms are
    positive, else 1. Sharded tensors (DTensor) have their norms reduced over all shards first, so the ratio is that of
    the whole tensor.

    A group may set ``adapt=False``: no trust ratio, the official rule for biases and norms; or ``max_trust_ratio``, a
    bound of the ratio (none in the official code).
    """

    _is_element_wise = False  # the trust ratio needs whole tensors

    def _scale(self, params: list[Tensor], updates: list[Tensor], group: Group) -> None:
        if not group.get("adapt", True):
            return
        weight_norms, update_norms = _norms(params), _norms(updates)
        both_positive = (weight_norms > 0) & (update_norms > 0)
        ratios = torch.where(both_positive, weight_norms / update_norms, 1.0)
        if (bound := group.get("max_trust_ratio")) is not None:
            ratios = ratios.clamp(max=bound)
        torch._foreach_mul_(local_shards(updates), list(ratios.unbind()))


def _norms(tensors: list[Tensor]) -> Tensor:
    """The L2 norm of each whole tensor, float32 [len(tensors)]; shards are reduced first."""
    norms = torch._foreach_norm(tensors)
    whole = [cast(Any, n).full_tensor() if hasattr(n, "full_tensor") else n for n in norms]
    return torch.stack(whole).float()
