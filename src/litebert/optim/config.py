"""Which optimizer trains, and its learning rate when none is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from litebert.common.config import check_range

OptimizerName = Literal["lamb", "adamw", "muon"]


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its constants; the defaults are the official ones."""

    name: OptimizerName = "lamb"
    """lamb, adamw, or muon (torch's Muon for the matrices of the layers, AdamW for the rest)"""
    lr: float | None = None
    """peak learning rate; default: LAMB 0.00176 * sqrt(batch / 4096), AdamW by width and depth"""
    beta1: float = 0.9
    """decay of the running mean of the gradient"""
    beta2: float = 0.999
    """decay of the running mean of its square"""
    eps: float = 1e-6
    """added to the root of the second mean"""
    weight_decay: float = 0.01
    """decoupled weight decay; biases and norms are excluded"""
    clip_norm: float = 1.0
    """largest global norm of the gradient; 0 turns clipping off"""
    bias_correction: bool = False
    """correct the running means at the start (the official code does not)"""
    max_trust_ratio: float | None = None
    """upper bound of LAMB's trust ratio (none in the official code)"""
    muon_lr: float = 5e-3
    """peak learning rate of the matrices under muon; lr is then that of the rest"""

    def __post_init__(self) -> None:
        check_range(self, "more than 0", "eps", "muon_lr", table="optimizer")
        check_range(self, "0 or more", "lr", "weight_decay", "clip_norm", "max_trust_ratio", table="optimizer")
        check_range(self, "0 or more and less than 1", "beta1", "beta2", table="optimizer")


def default_learning_rate(name: OptimizerName, batch_size: int, hidden_size: int, num_layers: int) -> float:
    """The peak learning rate when the config gives none.

    LAMB: the paper's rate with the square-root rule. AdamW (and the AdamW part of Muon): fitted to trials of hidden 256
    (two layers 1e-3, six 3e-4) and to BERT's 1e-4 for twelve layers of 768. The depth that counts is the one training
    starts with.
    """
    if name == "lamb":
        return 0.00176 * math.sqrt(batch_size / 4096)
    return min(1e-3, 1e-3 * (2 / num_layers) * math.sqrt(256 / hidden_size))
