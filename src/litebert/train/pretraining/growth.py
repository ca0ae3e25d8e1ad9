"""Layers of their own from layers that are there: deeper stages, and starts from shared models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from litebert.model.sharing import SharingPlan

_SETS = ("attention", "feed_forward", "norms")
_IN_A_SET = re.compile(rf"^encoder\.({'|'.join(_SETS)})\.(\d+)\.")


def new_sets(plan: SharingPlan, before: int, after: int) -> Iterator[tuple[str, int, int]]:
    """The parameter sets that begin to run when ``before`` layers become ``after``.

    Yields (kind, set, set it begins as). The new layers repeat the old ones from the first on, as
    a block that all layers share does; a set that has run already is nobody's copy.

    >>> from litebert.model.sharing import plan
    >>> list(new_sets(plan("ffn", 3), 2, 3))
    [('attention', 2, 0), ('norms', 2, 0)]
    """
    inner = plan.inner_group_num
    for kind in _SETS:
        used: tuple[int, ...] = getattr(plan, kind)
        known = set(used[: before * inner])
        for block in range(before * inner, after * inner):
            if used[block] not in known:
                known.add(used[block])
                yield kind, used[block], used[block % (before * inner)]


@torch.no_grad()
def deepen(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    sets: Iterator[tuple[str, int, int]],
    average: Mapping[str, Tensor],
) -> None:
    """Let sets of a model begin as copies of others: weights, their average, optimizer state.

    Copies of sharded tensors are shards of the copies, so processes need not talk.
    """
    parameters = dict(model.named_parameters())
    owners = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
    for kind, target, source in sets:
        prefix = f"encoder.{kind}.{target}."
        for name in [name for name in parameters if name.startswith(prefix)]:
            other = f"encoder.{kind}.{source}.{name.removeprefix(prefix)}"
            copy, original = parameters[name], parameters[other]
            copy.copy_(original)
            if name in average:
                average[name].copy_(average[other])
            if copy in owners:
                states = owners[copy].state
                for key, value in states.get(original, {}).items():
                    states[copy][key] = value.clone() if isinstance(value, Tensor) else value


def spread(shared: nn.Module, model: nn.Module, inner_group_num: int) -> None:
    """Give every layer of a model the one layer of a model that shares all parameters.

    The official code's ``init_from_group0``.
    """
    found = shared.state_dict()

    def source(name: str) -> str:
        return _IN_A_SET.sub(
            lambda match: f"encoder.{match[1]}.{int(match[2]) % inner_group_num}.", name
        )

    model.load_state_dict({name: found[source(name)] for name in model.state_dict()})
