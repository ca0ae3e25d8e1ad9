"""The parts of a block: linear maps, layer norm, attention, feed-forward, initialisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.model.config import ModelConfig
from litebert.model.gelu import gelu_tanh

AttentionImplementation = Literal["sdpa", "eager"]


def _identity(x: Tensor) -> Tensor:
    return x


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "gelu_tanh": gelu_tanh,
        "gelu": F.gelu,
        "relu": F.relu,
        "tanh": torch.tanh,
        "linear": _identity,
    }
)


def at_least_float32(x: Tensor) -> Tensor:
    """Widen half precision to float32; leave float32 and float64 alone."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def initialize(module: nn.Module, std: float, generator: torch.Generator | None = None) -> None:
    """Matrices and tables from a normal cut at two standard deviations, biases 0, norm gains 1.

    Parameters are visited in a fixed order, so one generator state gives one model. Without a
    generator torch's global one is used. On the meta device there is nothing to fill.
    """
    for child in module.modules():
        for name, parameter in child.named_parameters(recurse=False):
            if parameter.is_meta:
                continue
            if parameter.dim() == 1:
                is_gain = isinstance(child, LayerNorm) and name == "weight"
                nn.init.constant_(parameter, 1.0 if is_gain else 0.0)
            else:
                nn.init.trunc_normal_(
                    parameter, std=std, a=-2 * std, b=2 * std, generator=generator
                )


class Linear(nn.Linear):
    """`nn.Linear` that leaves its parameters to `initialize`.

    torch's own draw would be thrown away, and costs seconds at the larger sizes.

    Example:
        >>> Linear(4, 2)(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
    """

    def reset_parameters(self) -> None:
        """Leave the memory as it is."""


class Embedding(nn.Embedding):
    """`nn.Embedding` that leaves its table to `initialize`.

    Example:
        >>> Embedding(10, 4)(torch.tensor([1, 2])).shape
        torch.Size([2, 4])
    """

    def reset_parameters(self) -> None:
        """Leave the memory as it is."""


class LayerNorm(nn.LayerNorm):
    """Layer norm that computes in float32 at least.

    The eps of 1e-12 vanishes in half precision, where a row of zeros would give NaN. The result
    has the type of the parameters: float32 under autocast.

    Example:
        >>> LayerNorm(4, eps=1e-12)(torch.randn(2, 4)).shape
        torch.Size([2, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the last dimension of `input` [..., size]."""
        normed = F.layer_norm(
            at_least_float32(input),
            self.normalized_shape,
            at_least_float32(self.weight),
            at_least_float32(self.bias),
            self.eps,
        )
        return normed.to(self.weight.dtype)


class Attention(nn.Module):
    """The parameters of multi-head self-attention, and how heads mix values; see `Block`.

    Query, key and value are separate parameters, as in the folder and for LAMB's trust ratios.

    Example:
        >>> attention = Attention(ModelConfig(hidden_size=64, num_heads=2))
        >>> attention.mix(attention.project(torch.randn(2, 5, 64)), None, "sdpa").shape
        torch.Size([2, 5, 64])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.query = Linear(hidden, hidden)
        self.key = Linear(hidden, hidden)
        self.value = Linear(hidden, hidden)
        self.output = Linear(hidden, hidden)
        self.num_heads = config.heads
        self.dropout = config.attention_dropout

    def project(self, x: Tensor) -> Sequence[Tensor]:
        """Query, key and value, each [..., H] like `x`."""
        return self.query(x), self.key(x), self.value(x)

    def joined(self) -> tuple[Tensor, Tensor]:
        """Weight [3H, H] and bias [3H] of the three projections as one."""
        return (
            torch.cat((self.query.weight, self.key.weight, self.value.weight)),
            torch.cat((self.query.bias, self.key.bias, self.value.bias)),
        )

    def mix(
        self,
        projected: Sequence[Tensor],
        mask_B11S: Tensor | None,
        implementation: AttentionImplementation,
    ) -> Tensor:
        """Query, key and value [B, S, H] -> the heads' mixtures of values, side by side [B, S, H].

        Keys are the positions where the mask (bool) is true; all of them without a mask.
        """
        batch, length, hidden = projected[0].shape
        head_shape = (batch, length, self.num_heads, hidden // self.num_heads)
        query_BASD, key_BASD, value_BASD = (
            part_BSH.view(head_shape).transpose(1, 2) for part_BSH in projected
        )
        dropout = self.dropout if self.training else 0.0
        attend = sdpa_attention if implementation == "sdpa" else eager_attention
        mixed_BASD = attend(query_BASD, key_BASD, value_BASD, mask_B11S, dropout)
        return mixed_BASD.transpose(1, 2).reshape(batch, length, hidden)


def sdpa_attention(
    query_BASD: Tensor,
    key_BASD: Tensor,
    value_BASD: Tensor,
    mask_B11S: Tensor | None,
    dropout: float,
) -> Tensor:
    """Attention by torch's fused kernel, which never holds the [S, S] weights."""
    return F.scaled_dot_product_attention(
        query_BASD, key_BASD, value_BASD, attn_mask=mask_B11S, dropout_p=dropout
    )


def eager_attention(
    query_BASD: Tensor,
    key_BASD: Tensor,
    value_BASD: Tensor,
    mask_B11S: Tensor | None,
    dropout: float,
) -> Tensor:
    """Attention written out: the reference that the fused kernel is tested against."""
    scale = 1.0 / math.sqrt(query_BASD.shape[-1])
    scores_BASS = at_least_float32(torch.matmul(query_BASD, key_BASD.transpose(-1, -2)) * scale)
    if mask_B11S is not None:
        scores_BASS = scores_BASS.masked_fill(~mask_B11S, torch.finfo(scores_BASS.dtype).min)
    weights_BASS = F.dropout(F.softmax(scores_BASS, dim=-1), dropout)
    return torch.matmul(weights_BASS.to(value_BASD.dtype), value_BASD)


class FeedForward(nn.Module):
    """The parameters of H -> FFN width -> H with the activation between; see `Block`.

    Example:
        >>> feed_forward = FeedForward(ModelConfig(hidden_size=64))
        >>> feed_forward.activation(feed_forward.expand(torch.randn(2, 5, 64))).shape
        torch.Size([2, 5, 256])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.expand = Linear(config.hidden_size, config.ffn)
        self.contract = Linear(config.ffn, config.hidden_size)
        self.activation = ACTIVATIONS[config.activation]


class BlockNorms(nn.Module):
    """The two layer norms of a block (post-norm: each follows its residual sum).

    Example:
        >>> norms = BlockNorms(ModelConfig(hidden_size=64))
        >>> norms.attention(torch.randn(2, 5, 64)).shape
        torch.Size([2, 5, 64])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
