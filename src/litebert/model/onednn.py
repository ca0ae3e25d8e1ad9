"""Matrix products with weights in oneDNN's own order, where this torch and processor have them."""

from __future__ import annotations

import functools
import platform

import torch
from torch import Tensor

_OPERATORS = ("_reorder_linear_weight", "_linear_pointwise")
"""What torch's compiler itself uses for frozen weights. They are not public: looked up, and done
without where they are missing."""


@functools.cache
def can_pack() -> bool:
    """Whether this torch on this processor has what packing needs."""
    return (
        platform.machine() in ("x86_64", "AMD64")
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and all(hasattr(torch.ops.mkldnn, name) for name in _OPERATORS)
    )


def reordered(weight: Tensor) -> Tensor:
    """Bring a weight [O, I] into the order for :func:`packed_product`."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed


def packed_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """[..., I] times a reordered weight, plus the bias; [..., O], without gradients."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y
