"""Linear maps whose weights serve many layers of one training step on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from litebert.model.onednn import can_pack, packed_product, reordered

LinearMap = Callable[[Tensor], Tensor]

LEAST_ELEMENTS = 2**16
"""Weights with fewer are left as they are: preparing them costs more than it gains."""


class SharedLinear:
    """A linear map for one forward pass and its backward pass.

    What sharing makes cheap is done once instead of once a layer: the weights are brought into
    oneDNN's order, for both directions; and the layers add their gradients to one matrix within the
    product, which otherwise costs a pass over the weights for each. A step of albert-small or
    albert-base takes about 4 % less time (docs/experiments-log.md). Gradients of gradients are not
    supported.

    Example:
        >>> linear = nn.Linear(4, 4)
        >>> shared = SharedLinear(linear.weight, linear.bias)
        >>> shared(shared(torch.zeros(3, 4))).sum().backward()
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weights = _Weights(weight.detach(), bias.detach())
        # Every use depends on it, so its own backward pass comes behind all of theirs.
        self._token: Tensor = _Prepare.apply(weight, bias, self._weights)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]."""
        y: Tensor = _Use.apply(x, self._token, self._weights)  # type: ignore[no-untyped-call]
        return y


class _Weights:
    """Prepared weights, and what the uses so far have added to their gradients."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.weight, self.bias = reordered(weight), bias
        self.transposed = reordered(weight.t().contiguous())
        self._gradients: tuple[Tensor, Tensor] | None = None

    def add_gradients(self, gradient_TO: Tensor, x_TI: Tensor) -> None:
        """Add those of one use."""
        if self._gradients is None:
            self._gradients = gradient_TO.t() @ x_TI, gradient_TO.sum(0)
        else:
            weight_OI, bias_O = self._gradients
            weight_OI.addmm_(gradient_TO.t(), x_TI)
            bias_O.add_(gradient_TO.sum(0))

    def take_gradients(self) -> tuple[Tensor, Tensor] | tuple[None, None]:
        """Give them away; another backward pass begins anew."""
        gradients, self._gradients = self._gradients, None
        return gradients or (None, None)


def pays_to_share(weight: Tensor, num_uses: int) -> bool:
    """Whether preparing a weight pays: used more than once, for gradients, on a CPU in float32."""
    return (
        num_uses > 1
        and weight.numel() >= LEAST_ELEMENTS
        and torch.is_grad_enabled()
        and weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and can_pack()
    )


class _Context(Protocol):
    """What autograd keeps between forward and backward."""

    weights: _Weights
    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *args: Tensor) -> None: ...


class _Prepare(torch.autograd.Function):
    """Stands between the parameters and all uses; hands them the gradients of all."""

    @staticmethod
    def forward(ctx: _Context, weight: Tensor, bias: Tensor, weights: _Weights) -> Tensor:
        """Gives a token without content."""
        ctx.weights = weights
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, _: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Comes when every use has added its part."""
        return *ctx.weights.take_gradients(), None


class _Use(torch.autograd.Function):
    """One layer's product with the shared weights."""

    @staticmethod
    def forward(ctx: _Context, x: Tensor, token: Tensor, weights: _Weights) -> Tensor:
        """Keeps only its input."""
        ctx.save_for_backward(x)
        ctx.weights = weights
        return packed_product(x, weights.weight, weights.bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """Adds to the gradients of the weights on the way."""
        (x,) = ctx.saved_tensors
        weights = ctx.weights
        weights.add_gradients(gradient.reshape(-1, gradient.shape[-1]), x.reshape(-1, x.shape[-1]))
        return packed_product(gradient, weights.transposed, None), gradient.new_zeros(()), None
