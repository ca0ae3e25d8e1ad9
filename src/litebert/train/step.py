"""One training step of any model: accumulate gradients, check them, clip, update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from litebert.dist.replica import Replica, whole

T = TypeVar("T")


def accumulate(
    replica: Replica,
    micro_batches: Sequence[T],
    loss_of: Callable[[nn.Module, T], tuple[Tensor, Tensor]],
    seeds: Sequence[int],
) -> Tensor:
    """Run forward and backward of all micro-batches; then gradients are summed over processes.

    Args:
        replica: the model, wrapped for its processes.
        micro_batches: this process's share of the step, at least one.
        loss_of: gives the loss to differentiate, already divided by the step's global counts, and
            a float vector of statistics.
        seeds: for each micro-batch, the seed of its dropout. With randomness by address a resumed
            run needs no stored generator.

    Returns:
        The sum of the statistics over this process's micro-batches.
    """
    total: Tensor | None = None
    for number, (micro_batch, seed) in enumerate(zip(micro_batches, seeds, strict=True)):
        torch.manual_seed(seed)
        with replica.micro_batch(is_last=number + 1 == len(micro_batches)):
            loss, statistics = loss_of(replica.module_for_training, micro_batch)
            torch.autograd.backward(loss)
        statistics = statistics.detach().double()
        total = statistics if total is None else total + statistics
    assert total is not None, "a step has at least one micro-batch"
    return total


def update(
    parameters: Iterable[Tensor],
    optimizers: Sequence[Optimizer],
    clip_norm: float,
    *,
    loss: float,
) -> float:
    """Clip the gradients to a global norm and update, unless loss or gradients are not finite.

    Gradients and loss are the same on every process (they were summed), so all decide alike.

    Returns:
        The gradients' global norm before clipping; not finite if nothing was updated.
    """
    with_gradient = [p for p in parameters if p.grad is not None]
    gradients = [p.grad for p in with_gradient if p.grad is not None]
    norm_tensor = whole(torch.nn.utils.get_total_norm(gradients))
    norm = float(norm_tensor)
    if not math.isfinite(loss):
        norm = math.nan
    if math.isfinite(norm):
        if clip_norm > 0.0:
            # clip_norm / norm as in TensorFlow's clip_by_global_norm: no eps in the divisor.
            scale = clip_norm / max(norm, clip_norm)
            if scale < 1.0:
                torch._foreach_mul_(gradients, scale)
        for optimizer in optimizers:
            optimizer.step()
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    return norm
