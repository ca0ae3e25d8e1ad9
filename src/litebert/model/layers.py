"""A block and its parts: linear maps, layer norm, attention, feed-forward, initialisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.model import cpu
from litebert.model.config import ModelConfig
from litebert.model.sharing import BlockSets

AttentionImplementation = Literal["sdpa", "eager"]

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": cpu.gelu_tanh,
    "gelu": F.gelu,
    "relu": F.relu,
    "tanh": torch.tanh,
    "linear": torch.positive,
}


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
                nn.init.trunc_normal_(parameter, 0.0, std, -2 * std, 2 * std, generator)


class Linear(nn.Linear):
    """`nn.Linear` that leaves its draw to `initialize`: torch's own costs seconds for big ones."""

    def reset_parameters(self) -> None:
        """Leave the memory as it is."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., I] -> [..., O]."""
        return cpu.linear(input, self.weight, self.bias)


def packed(module: nn.Module) -> nn.Module:
    """A module for prediction: packed if it is a linear map that can be, else the module itself.

    A map that does more than these, or that somebody watches with hooks, stays as it is.
    """
    plain = (Linear.forward, nn.Linear.forward)
    can_be = (
        isinstance(module, nn.Linear)
        and getattr(module.forward, "__func__", None) in plain
        and not (module._forward_hooks or module._forward_pre_hooks)
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
        and cpu.has_onednn()
    )
    return cpu.PackedLinear(cast(nn.Linear, module)) if can_be else module


class Embedding(nn.Embedding):
    """`nn.Embedding` that leaves its table to `initialize`."""

    def reset_parameters(self) -> None:
        """Leave the memory as it is."""


class LayerNorm(nn.LayerNorm):
    """Layer norm that computes in float32 at least.

    The eps of 1e-12 vanishes in half precision, where a row of zeros would give NaN. The result
    has the type of the parameters: float32 under autocast.
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


class AttentionContext(NamedTuple):
    """What attention needs beside the tokens: who sees whom, and which kernel computes it."""

    implementation: AttentionImplementation = "sdpa"
    mask_B11S: Tensor | None = None  # bool, true where a key is seen; all are seen without it
    shapes: tuple[tuple[int, int], ...] | None = None
    """of a row of T tokens: (texts, length) for each length; a text sees itself alone"""


_EVERYONE = AttentionContext()


class Attention(nn.Module):
    """Multi-head self-attention; query, key and value are apart, as LAMB's trust ratios need it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.query = Linear(hidden, hidden)
        self.key = Linear(hidden, hidden)
        self.value = Linear(hidden, hidden)
        self.output = Linear(hidden, hidden)
        self.num_heads = config.heads
        self.dropout = config.attention_dropout

    def forward(self, x: Tensor, context: AttentionContext = _EVERYONE, rows_R: Tensor | None = None) -> Tensor:
        """[B, S, H] or [T, H], a row of tokens, to the same shape; to [R, H] for given rows.

        Rows are indices into the flattened tokens: all are seen, but only these get a result.
        """
        mix = self._mix if context.shapes is None else self._mix_by_length
        mixed = mix((self.query(x), self.key(x), self.value(x)), context)
        out: Tensor = self.output(_select(mixed, rows_R))
        return out

    def _mix(self, projected: Sequence[Tensor], context: AttentionContext) -> Tensor:
        """Query, key and value [B, S, H] -> the heads' mixtures of values, in one [B, S, H]."""
        batch, length, hidden = projected[0].shape
        head_shape = (batch, length, self.num_heads, hidden // self.num_heads)
        query_BASD, key_BASD, value_BASD = (x.view(head_shape).transpose(1, 2) for x in projected)
        dropout = self.dropout if self.training else 0.0
        # torch's fused kernel never holds the [S, S] weights; for bfloat16 a CPU has a faster way.
        fused = context.implementation == "sdpa"
        by_torch = F.scaled_dot_product_attention if fused else eager_attention
        attend = _narrow_attention if fused and cpu.prefers_slices(query_BASD) else by_torch
        mixed_BASD = attend(query_BASD, key_BASD, value_BASD, context.mask_B11S, dropout)
        return mixed_BASD.transpose(1, 2).reshape(batch, length, hidden)

    def _mix_by_length(self, projected: Sequence[Tensor], context: AttentionContext) -> Tensor:
        """The same for a row of tokens [T, H], over texts of one length at a time."""
        shapes = context.shapes or ()
        sizes = [texts * length for texts, length in shapes]
        parts = (part_TH.split_with_sizes(sizes) for part_TH in projected)
        mixed = [
            self._mix([part.view(*shape, -1) for part in group], context).flatten(0, 1)
            for shape, *group in zip(shapes, *parts, strict=True)
        ]
        return torch.cat(mixed)


def eager_attention(
    query_BASD: Tensor,
    key_BASD: Tensor,
    value_BASD: Tensor,
    mask_B11S: Tensor | None,
    dropout: float,
    *,
    widen: bool = True,
) -> Tensor:
    """Attention written out: the reference that the fused kernel is tested against.

    `widen`: the scores are float32 at least.
    """
    scale = 1.0 / math.sqrt(query_BASD.shape[-1])
    scores_BASS = torch.matmul(query_BASD * scale, key_BASD.transpose(-1, -2))
    if widen:
        scores_BASS = at_least_float32(scores_BASS)
    if mask_B11S is not None:
        scores_BASS = scores_BASS.masked_fill(~mask_B11S, torch.finfo(scores_BASS.dtype).min)
    weights_BASS = F.dropout(F.softmax(scores_BASS, dim=-1), dropout)
    return torch.matmul(weights_BASS.to(value_BASD.dtype), value_BASD)


_narrow_attention = partial(cpu.in_slices, partial(eager_attention, widen=False))


class FeedForward(nn.Module):
    """H -> FFN width -> H, token by token, with the activation between."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.expand = Linear(config.hidden_size, config.ffn)
        self.contract = Linear(config.ffn, config.hidden_size)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] -> [..., H]."""
        out: Tensor = self.contract(self.activation(self.expand(x)))
        return out


class BlockNorms(nn.Module):
    """The two layer norms of a block: each follows a residual sum (post-norm)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class Block(nn.Module):
    """One block of the encoder, over parameter sets that other blocks may share.

    The sets live in the encoder's lists, where they have their one name in `state_dict`; a block
    looks its own up there, so that a set that was replaced is used by all its blocks. Assigning
    to `attention`, `feed_forward` or `norms` replaces the set (docs/decisions/0006).
    """

    def __init__(
        self,
        attention: nn.ModuleList,
        feed_forward: nn.ModuleList,
        norms: nn.ModuleList,
        sets: BlockSets,
        dropout: float,
    ) -> None:
        super().__init__()
        # In a dictionary, where torch does not look for modules.
        self._lists = {"attention": attention, "feed_forward": feed_forward, "norms": norms}
        self._sets = sets
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, context: AttentionContext = _EVERYONE, rows_R: Tensor | None = None) -> Tensor:
        """As `Attention.forward`: with rows, all that follows the attention runs there only."""
        attended = self.attention(x, context, rows_R)
        x = self.norms.attention(_select(x, rows_R) + self.dropout(attended))
        x = self.norms.feed_forward(x + self.dropout(self.feed_forward(x)))
        return x

    @property
    def attention(self) -> Attention:
        """The attention of this block."""
        return cast(Attention, self._lists["attention"][self._sets.attention])

    @property
    def feed_forward(self) -> FeedForward:
        """The feed-forward of this block."""
        return cast(FeedForward, self._lists["feed_forward"][self._sets.feed_forward])

    @property
    def norms(self) -> BlockNorms:
        """The norms of this block."""
        return cast(BlockNorms, self._lists["norms"][self._sets.norms])

    def __setattr__(self, name: str, value: Tensor | nn.Module) -> None:
        if name in BlockSets._fields:
            self._lists[name][getattr(self._sets, name)] = cast(nn.Module, value)
        else:
            super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """The parts, as if they were registered here."""
        return "\n".join(f"({name}): {getattr(self, name)}" for name in BlockSets._fields)


def _select(x: Tensor, rows_R: Tensor | None) -> Tensor:
    """These of the flattened tokens, [R, H]; `x` itself without rows."""
    return x if rows_R is None else x.reshape(-1, x.shape[-1]).index_select(0, rows_R)
