"""Parameter groups by the official exclusion rule, and the optimizers of a config."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from torch import Tensor
from torch.optim import Optimizer

from litebert.common.errors import ConfigError
from litebert.optim.adamw import AdamW, Group
from litebert.optim.config import OptimizerConfig
from litebert.optim.lamb import Lamb

_EXCLUDED = re.compile(r"(^|[._]|layer)norms?([._]|$)|(^|[._])bias$", re.IGNORECASE)
_BLOCK_MATRIX = re.compile(r"(^|\.)(attention|feed_forward)\.\d+\..*weight$")


def is_excluded(name: str) -> bool:
    """Whether a parameter is left out of weight decay and of LAMB's adaptation (spec 4.2)."""
    return _EXCLUDED.search(name) is not None


def build_optimizers(
    named_parameters: Iterable[tuple[str, Tensor]],
    config: OptimizerConfig,
    lr: float,
    rate_factor: Callable[[str], float] = lambda name: 1.0,
) -> list[Optimizer]:
    """Make the optimizers of a config; every group remembers its ``peak_lr``.

    One optimizer, or two for ``muon`` (matrices of the layers, then the rest); frozen parameters are left out.
    ``rate_factor`` gives parameters, by name, rates of their own (AdamW).
    """
    trainable = [(name, p) for name, p in named_parameters if p.requires_grad]
    betas, eps, correction = (config.beta1, config.beta2), config.eps, config.bias_correction
    if config.name == "lamb":
        groups = _groups(trainable, lr, config)
        return [Lamb(groups, lr, betas, eps, bias_correction=correction)]
    candidates = trainable if config.name == "muon" else []
    matrices = {name: p for name, p in candidates if p.ndim == 2 and _BLOCK_MATRIX.search(name)}
    rest = [(name, p) for name, p in trainable if name not in matrices]
    groups = []
    for factor in sorted({rate_factor(name) for name, _ in rest}, reverse=True):
        same = [(name, p) for name, p in rest if rate_factor(name) == factor]
        groups += _groups(same, lr * factor, config)
    adamw = AdamW(groups, lr, betas, eps, bias_correction=correction)
    if not matrices:
        return [adamw]
    try:
        from torch.optim import Muon
    except ImportError:
        raise ConfigError("optimizer muon needs torch 2.9 or newer: use adamw or lamb.") from None
    group: Group = {"params": list(matrices.values()), "peak_lr": config.muon_lr}
    return [Muon([group], lr=config.muon_lr, weight_decay=config.weight_decay), adamw]


def set_learning_rate(optimizers: Iterable[Optimizer], factor: float) -> None:
    """Set every group's learning rate to ``factor`` times its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * factor


def _groups(named: list[tuple[str, Tensor]], lr: float, config: OptimizerConfig) -> list[Group]:
    """What decays and, under LAMB, adapts; and what does neither."""
    both = {"peak_lr": lr, "max_trust_ratio": config.max_trust_ratio}
    decayed = [p for name, p in named if not is_excluded(name)]
    excluded = [p for name, p in named if is_excluded(name)]
    groups: list[Group] = [
        {**both, "params": decayed, "weight_decay": config.weight_decay},
        {**both, "params": excluded, "weight_decay": 0.0, "adapt": False},
    ]
    return [group for group in groups if group["params"]]
