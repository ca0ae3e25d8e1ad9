"""One block as a forward pass runs it: parameter sets put together, shared maps prepared once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.model.layers import Attention, AttentionImplementation, BlockNorms, FeedForward
from litebert.model.shared_linear import LinearMap, SharedLinear, pays_to_share
from litebert.model.sharing import SharingPlan


class AttentionMaps(NamedTuple):
    """The linear maps around an attention."""

    project: Callable[[Tensor], Sequence[Tensor]]
    """[..., H] -> query, key and value"""
    output: LinearMap


class FeedForwardMaps(NamedTuple):
    """The linear maps of a feed-forward."""

    expand: LinearMap
    contract: LinearMap


class Block:
    """A post-norm block; lives for one forward pass.

    Example:
        >>> block = blocks_of(plan, attention, feed_forward, norms, dropout=0.0)[0]
        >>> block(torch.randn(2, 5, 64), None, "sdpa", None).shape
        torch.Size([2, 5, 64])
    """

    def __init__(
        self,
        attention: tuple[Attention, AttentionMaps],
        feed_forward: tuple[FeedForward, FeedForwardMaps],
        norms: BlockNorms,
        dropout: float,
    ) -> None:
        self.attention, (self.project, self._output) = attention
        self._feed_forward, (self._expand, self._contract) = feed_forward
        self._norms = norms
        self._dropout = dropout

    def __call__(
        self,
        x_BSH: Tensor,
        mask_B11S: Tensor | None,
        implementation: AttentionImplementation,
        rows_R: Tensor | None,
    ) -> Tensor:
        """[B, S, H] -> [B, S, H]; [R, H] for given rows of the flattened tokens."""
        mixed_BSH = self.attention.mix(self.project(x_BSH), mask_B11S, implementation)
        return self.after_attention(x_BSH, mixed_BSH, rows_R)

    def after_attention(self, x: Tensor, mixed: Tensor, rows_R: Tensor | None) -> Tensor:
        """What follows the attention: token by token, in whatever shape they come.

        Args:
            x: the block's input [..., H].
            mixed: what the heads of its attention made of it [..., H].
            rows_R: go on with these of the flattened tokens only, and return [R, H].
        """
        if rows_R is not None:
            x = x.reshape(-1, x.shape[-1]).index_select(0, rows_R)
            mixed = mixed.reshape(-1, mixed.shape[-1]).index_select(0, rows_R)
        x = self._norms.attention(x + self._dropped(self._output(mixed)))
        widened = self._feed_forward.activation(self._expand(x))
        out: Tensor = self._norms.feed_forward(x + self._dropped(self._contract(widened)))
        return out

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self._dropout) if self._dropout else x


def blocks_of(
    plan: SharingPlan,
    attention: Sequence[Attention],
    feed_forward: Sequence[FeedForward],
    norms: Sequence[BlockNorms],
    dropout: float,
) -> list[Block]:
    """Return the blocks that a plan lists; what several of them share is prepared once.

    Args:
        plan: which block uses which parameter set.
        attention, feed_forward, norms: the parameter sets.
        dropout: rate behind the two residual maps of each block; 0 when not training.
    """
    attentions = {
        index: (attention[index], _attention_maps(attention[index], num_uses))
        for index, num_uses in Counter(plan.attention).items()
    }
    feed_forwards = {
        index: (feed_forward[index], _feed_forward_maps(feed_forward[index], num_uses))
        for index, num_uses in Counter(plan.feed_forward).items()
    }
    return [
        Block(
            attentions[sets.attention], feed_forwards[sets.feed_forward], norms[sets.norms], dropout
        )
        for sets in plan.blocks
    ]


def _attention_maps(attention: Attention, num_uses: int) -> AttentionMaps:
    """Join the three projections for training, where that pays in the backward pass.

    Without gradients, where a batch may be one short sentence, they run as they are.
    """
    if not torch.is_grad_enabled():
        return AttentionMaps(attention.project, attention.output)
    weight, bias = attention.joined()
    joined: LinearMap = partial(F.linear, weight=weight, bias=bias)
    if pays_to_share(weight, num_uses):
        joined = SharedLinear(weight, bias)
    return AttentionMaps(lambda x: joined(x).chunk(3, dim=-1), _map_of(attention.output, num_uses))


def _feed_forward_maps(feed_forward: FeedForward, num_uses: int) -> FeedForwardMaps:
    return FeedForwardMaps(
        _map_of(feed_forward.expand, num_uses), _map_of(feed_forward.contract, num_uses)
    )


def _map_of(linear: nn.Linear, num_uses: int) -> LinearMap:
    """Return a linear map as it is, or prepared for many uses."""
    if pays_to_share(linear.weight, num_uses):
        return SharedLinear(linear.weight, linear.bias)
    return linear
