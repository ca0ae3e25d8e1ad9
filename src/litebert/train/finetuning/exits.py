"""Exits: depths of the shared block at which the head is trained too, so that it may stop early."""

from __future__ import annotations

from litebert.common.errors import ConfigError
from litebert.common.rng import rng
from litebert.model.config import ModelConfig
from litebert.model.sharing import plan_of

_PARTS = 4


def exit_depths(config: ModelConfig) -> tuple[int, ...]:
    """Return a quarter, half, three quarters and all of the layers, rounded up.

    Raises:
        ConfigError: the layers have parameters of their own, or there is only one.

    Example:
        >>> exit_depths(preset("albert-base"))
        (3, 6, 9, 12)
    """
    if not plan_of(config).repeats_one_layer:
        raise ConfigError(
            f"train_exits needs a model whose layers share all parameters, this one shares "
            f"'{config.sharing}': leave it out."
        )
    if config.num_layers < 2:
        raise ConfigError("train_exits needs a model of 2 layers or more: leave it out.")
    return tuple(sorted({-(-config.num_layers * part // _PARTS) for part in range(1, _PARTS + 1)}))


def drawn_exit(depths: tuple[int, ...], seed: int, step: int) -> int | None:
    """Return the early exit that a step trains beside the full depth; None without exits.

    One a step, each as often as the others: the mean over steps is that of training all, for half
    a forward pass more instead of one for each.
    """
    if len(depths) < 2:
        return None
    return depths[int(rng(seed, "exit depth", step).integers(len(depths) - 1))]
