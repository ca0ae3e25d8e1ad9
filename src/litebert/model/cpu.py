"""What a CPU does faster than by torch's defaults: GELU, attention, linear maps, memory."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import platform
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_CUBIC = 0.044715
_SCALE = 2.0 * math.sqrt(2.0 / math.pi)
_SLICE_ELEMENTS = 2**17
"""worked on at a time, so that the temporaries stay in the second-level cache"""
_SCORES_AT_A_TIME = 2**21
"""of attention in bfloat16: 4 MB, whose pages the allocator keeps"""
SHAPE_CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
_CACHED_SHAPES = "64"
"""oneDNN and torch's layer above it keep up to some megabytes for each matrix and number of tokens
that they have met, 1,024 of them by default: memory grows for hours where lengths vary. They ask
the environment when they are first used. 64 were as fast (docs/experiments-log.md)."""


def keep_freed_memory() -> None:
    """Let the process keep the memory of freed tensors for the next ones.

    By default glibc gives much of it back at once, and every page that comes again is cleared by
    the system first: an eighth of a fine-tuning step, whose batches are all of different shapes
    (docs/experiments-log.md). Only where the C library is glibc.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(-1, 2**30)  # M_TRIM_THRESHOLD: free memory that stays with the process
        libc.mallopt(-3, 2**25)  # M_MMAP_THRESHOLD: tensors that may use it; no more is allowed


def gelu_tanh(x: Tensor) -> Tensor:
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), of any shape.

    The same is x * sigmoid(2 sqrt(2/pi) * (x + 0.044715 x^3)), and torch's vectorised sigmoid
    costs a quarter of its tanh.
    """
    is_plain = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    if not is_plain or torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    y: Tensor = _SigmoidGelu.apply(x)  # type: ignore[no-untyped-call]
    return y


class AutogradContext(Protocol):
    """What autograd keeps between forward and backward; torch's own class has no types."""

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *args: Tensor) -> None: ...  # noqa: D102

    def mark_non_differentiable(self, *args: Tensor) -> None: ...  # noqa: D102


class _SigmoidGelu(torch.autograd.Function):
    """Slice by slice, so that the temporaries of a long expression never leave the cache."""

    @staticmethod
    def forward(ctx: AutogradContext, x: Tensor) -> Tensor:
        """Keeps only its input."""
        x = x.contiguous()
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        for x_slice, y_slice, square in _slices(x, y, scratch=1):
            torch.mul(x_slice, x_slice, out=square)
            gate = _gate(x_slice, square, out=square)
            torch.mul(gate, x_slice, out=y_slice)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: AutogradContext, grad_y: Tensor) -> Tensor:
        """grad * (s + s (1 - s) x k (1 + 3 c x^2)) with s the gate, k its scale, c the cubic."""
        (x,) = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        slices = _slices(x, grad_y.contiguous(), grad_x, scratch=2)
        for x_slice, grad_y_slice, slope, inner, gate in slices:
            torch.mul(x_slice, x_slice, out=inner)
            _gate(x_slice, inner, out=gate)
            inner.mul_(3.0 * _CUBIC * _SCALE).add_(_SCALE).mul_(x_slice)
            torch.addcmul(gate, gate, gate, value=-1.0, out=slope)
            torch.addcmul(gate, slope, inner, out=slope)
            slope.mul_(grad_y_slice)
        return grad_x


def _slices(*tensors: Tensor, scratch: int) -> Iterator[list[Tensor]]:
    """Slices of tensors of one size, with room for temporaries.

    The room is used again for every slice: fresh memory costs more than the sums.
    """
    rooms = tensors[0].new_empty((scratch, min(tensors[0].numel(), _SLICE_ELEMENTS)))
    for parts in zip(*(torch.split(x.view(-1), _SLICE_ELEMENTS) for x in tensors), strict=True):
        yield [*parts, *rooms[:, : len(parts[0])]]


def _gate(x: Tensor, square: Tensor, out: Tensor) -> Tensor:
    """sigmoid(k * (x + c x^3))."""
    return torch.addcmul(x, square, x, value=_CUBIC, out=out).mul_(_SCALE).sigmoid_()


def prefers_slices(x: Tensor) -> bool:
    """Whether attention `in_slices` is the fastest way here: in bfloat16 on a CPU."""
    is_narrow = x.device.type == "cpu" and x.dtype == torch.bfloat16
    return is_narrow and not torch.compiler.is_compiling()


def in_slices(
    attend: Callable[..., Tensor],
    query_BASD: Tensor,
    key_BASD: Tensor,
    value_BASD: Tensor,
    mask_B11S: Tensor | None,
    dropout: float,
) -> Tensor:
    """Attention that is written out, for a few texts at a time.

    torch's fused kernel takes four times as long for 128 tokens in bfloat16, most of it in its
    backward pass, and twice as long for 512 (docs/experiments-log.md).
    """
    _, heads, length, _ = query_BASD.shape
    texts = max(1, _SCORES_AT_A_TIME // (heads * length * length))
    slices = [torch.split(x, texts) for x in (query_BASD, key_BASD, value_BASD)]
    masks = repeat(None) if mask_B11S is None else torch.split(mask_B11S, texts)
    return torch.cat([attend(*one, dropout) for one in zip(*slices, masks, strict=False)])


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear`, through oneDNN in float32 on a CPU that has it.

    Products run 1.05 to 1.12 times as fast on AVX-512 (AMD EPYC, Zen 4) as by the library that
    torch takes (docs/experiments-log.md).
    """
    is_plain = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32
    is_other = torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling()
    if not is_plain or is_other or not x.numel() or not has_onednn():
        return F.linear(x, weight, bias)
    y: Tensor = _OneDnnLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class _OneDnnLinear(torch.autograd.Function):
    """A linear map; the gradient of its weight is torch's product, which is as fast."""

    @staticmethod
    def forward(ctx: AutogradContext, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """[..., I] -> [..., O]."""
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: AutogradContext, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        """What `F.linear` gives."""
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        grad_y_TO = grad_y.reshape(-1, weight.shape[0])
        return (
            _product(grad_y, weight.t(), None) if needs_x else None,
            grad_y_TO.t() @ x.reshape(-1, weight.shape[1]) if needs_weight else None,
            grad_y_TO.sum(0) if needs_bias else None,
        )


class PackedLinear(nn.Module):
    """A linear map with its weights in oneDNN's order, in place of a reordering at every call.

    On two cores of an AVX2 machine with albert-base it multiplies 1.5 to 2 times as fast as `nn.Linear` for one short
    sentence and about 1.1 times for a full batch (docs/experiments-log.md). It has no gradients.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = _reordered(linear.weight.detach())
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]."""
        return _product(x, self.weight, self.bias)


@functools.cache
def has_onednn() -> bool:
    """Whether this torch on this processor has oneDNN's operators, and they multiply rightly.

    They are what torch's compiler itself uses for linear maps, and not public.
    """
    is_available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if platform.machine() not in ("x86_64", "AMD64") or not is_available:
        return False
    for variable in SHAPE_CACHES:
        os.environ.setdefault(variable, _CACHED_SHAPES)
    weight, bias, x = torch.arange(6.0).view(3, 2), torch.ones(3), torch.ones(4, 2)
    try:
        with torch.no_grad():
            products = [_product(x, w, bias) for w in (_reordered(weight), weight)]
    except (AttributeError, RuntimeError, TypeError):  # none, or others in another version
        return False
    return all(torch.equal(product, x @ weight.t() + bias) for product in products)


def _reordered(weight: Tensor) -> Tensor:
    """Bring a weight [O, I] into the order that `_product` likes best."""
    reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return reordered


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """[..., I] times a weight [O, I], reordered or not, plus the bias; no gradients."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y
