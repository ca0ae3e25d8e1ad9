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
    """Whether this torch on this processor has what packing needs, and it multiplies rightly."""
    if (
        platform.machine() not in ("x86_64", "AMD64")
        or not torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        or not all(hasattr(torch.ops.mkldnn, name) for name in _OPERATORS)
    ):
        return False
    weight, bias, x = torch.arange(6.0).view(3, 2), torch.ones(3), torch.ones(4, 2)
    try:
        with torch.no_grad():
            product = packed_product(x, reordered(weight), bias)
    except (RuntimeError, TypeError):  # other arguments in another version
        return False
    return torch.equal(product, x @ weight.t() + bias)


def reordered(weight: Tensor) -> Tensor:
    """Bring a weight [O, I] into the order for :func:`packed_product`."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed


def packed_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """[..., I] times a reordered weight, plus the bias; [..., O], without gradients."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y
