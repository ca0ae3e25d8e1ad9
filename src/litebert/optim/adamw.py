"""AdamW with the official arithmetic: no bias correction, decay times the learning rate."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

Group = dict[str, Any]  # A parameter group of torch: its values have many types, so torch itself says ``Any``.
_STEP_WITHOUT_CORRECTION = 1e9  # torch's kernel always corrects by 1 - beta^step: at such a step that is exactly 1.


class AdamW(Optimizer):
    """AdamW as BERT and ALBERT were trained with (spec 4.2).

    Per tensor: ``m = b1 m + (1 - b1) g``; ``v = b2 v + (1 - b2) g^2``; ``u = m / (sqrt(v) + eps) + weight_decay * w``;
    ``w -= lr * u``. Parameters may be plain tensors or sharded ones (DTensor); the update is element by element, so
    both agree. ``bias_correction`` divides the running means by ``1 - beta^t`` (off in the official code).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        *,
        bias_correction: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "bias_correction": bias_correction})

    _is_element_wise: ClassVar[bool] = True  # whether the update of a tensor needs nothing but its own elements

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                self._update(params, group)

    def _update(self, params: list[Tensor], group: Group) -> None:
        grads = [cast(Tensor, p.grad) for p in params]
        states = [self._state_of(p, group) for p in params]
        means = [state["exp_avg"] for state in states]
        squares = [state["exp_avg_sq"] for state in states]
        steps = [state["step"].add_(1.0) for state in states if group["bias_correction"]]
        lr, (beta1, beta2) = float(group["lr"]), group["betas"]
        if self._is_element_wise and all(map(_fits_the_fused_kernel, params)):
            # One pass over memory: the passes below cost as much as a layer.
            steps = steps or [torch.tensor(_STEP_WITHOUT_CORRECTION)] * len(params)
            values = {"lr": lr, "beta1": beta1, "beta2": beta2} | {key: group[key] for key in ("weight_decay", "eps")}
            torch._fused_adamw_(params, grads, means, squares, [], steps, **values, amsgrad=False, maximize=False)
            return
        torch._foreach_mul_(means, beta1)
        torch._foreach_add_(means, grads, alpha=1.0 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, 1.0 - beta2)
        roots = list(torch._foreach_sqrt(squares))
        if steps:
            torch._foreach_div_(roots, [(1.0 - beta2 ** int(t)) ** 0.5 for t in steps])
        torch._foreach_add_(roots, group["eps"])
        updates = list(torch._foreach_div(means, roots))
        if steps:
            torch._foreach_div_(updates, [1.0 - beta1 ** int(t) for t in steps])
        if group["weight_decay"]:
            torch._foreach_add_(updates, params, alpha=group["weight_decay"])
        self._scale(params, updates, group)
        torch._foreach_add_(local_shards(params), local_shards(updates), alpha=-lr)

    def _scale(self, params: list[Tensor], updates: list[Tensor], group: Group) -> None:
        """Scale the updates in place before they are applied; AdamW leaves them as they are."""

    def _state_of(self, param: Tensor, group: Group) -> dict[str, Tensor]:
        state = cast(dict[str, Tensor], self.state[param])
        if not state:
            state["exp_avg"] = torch.zeros_like(param, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)
            if group["bias_correction"]:
                state["step"] = torch.zeros((), dtype=torch.float32)
        return state


def _fits_the_fused_kernel(param: Tensor) -> bool:
    """Whether torch's fused kernel takes this tensor: whole, on the CPU, like its gradient."""
    grad = cast(Tensor, param.grad)
    is_here = not hasattr(param, "to_local") and param.device.type == "cpu"
    return is_here and grad.dtype == param.dtype and grad.stride() == param.stride()


def local_shards(tensors: list[Tensor]) -> list[Tensor]:
    """The part of each tensor that lives on this rank: the tensor itself unless it is sharded."""
    return [cast(Any, t).to_local() if hasattr(t, "to_local") else t for t in tensors]
