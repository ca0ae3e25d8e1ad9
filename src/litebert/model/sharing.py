"""Which layer uses which parameters: every sharing strategy as a plan of indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from litebert.common.errors import ConfigError
from litebert.model.config import ModelConfig, Sharing


class BlockSets(NamedTuple):
    """A number for each kind of parameter set: those that one block uses, or how many exist."""

    attention: int
    feed_forward: int
    norms: int


@dataclass(frozen=True)
class SharingPlan:
    """For each block that runs, the index of the parameter set it uses.

    A layer is `inner_group_num` blocks.

    >>> plan("ffn", num_layers=3)
    SharingPlan(attention=(0, 1, 2), feed_forward=(0, 0, 0), norms=(0, 1, 2), inner_group_num=1)
    """

    attention: tuple[int, ...]  # parameter set of query, key, value and output, per block
    feed_forward: tuple[int, ...]  # parameter set of the two feed-forward matrices, per block
    norms: tuple[int, ...]  # parameter set of the two layer norms, per block
    inner_group_num: int = 1  # blocks per layer

    @property
    def blocks(self) -> tuple[BlockSets, ...]:
        """The sets of each block, in order of execution."""
        return tuple(map(BlockSets, self.attention, self.feed_forward, self.norms))

    @property
    def num_layers(self) -> int:
        """Layers that run."""
        return len(self.attention) // self.inner_group_num

    @property
    def num_sets(self) -> BlockSets:
        """How many parameter sets of each kind exist."""
        return BlockSets(max(self.attention) + 1, max(self.feed_forward) + 1, max(self.norms) + 1)

    @property
    def repeats_one_layer(self) -> bool:
        """Whether every layer uses the same parameters, so that the depth is free."""
        first_layer = self.blocks[: self.inner_group_num]
        return self.blocks == first_layer * self.num_layers

    def at_depth(self, num_layers: int) -> SharingPlan:
        """The plan that runs `num_layers` layers with the same parameters.

        Fewer layers are the first ones, whatever the strategy: the result is the hidden state
        that a full run passes through. More layers than the plan has exist only where one layer
        repeats; elsewhere it is not said whose parameters they would use.
        """
        if num_layers < 1:
            raise ConfigError(f"num_layers is {num_layers}: run at least 1 layer.")
        if num_layers > self.num_layers and not self.repeats_one_layer:
            raise ConfigError(
                f"num_layers {num_layers} is more than the {self.num_layers} layers this model has "
                "parameters for: only a model that shares all parameters can run deeper."
            )
        num_blocks = num_layers * self.inner_group_num
        repeats = -(-num_layers // self.num_layers)
        attention, feed_forward, norms = (
            (sets * repeats)[:num_blocks] for sets in (self.attention, self.feed_forward, self.norms)
        )
        return SharingPlan(attention, feed_forward, norms, self.inner_group_num)


def plan(strategy: Sharing, num_layers: int, num_groups: int = 1, inner_group_num: int = 1) -> SharingPlan:
    """The plan of a strategy.

    Layer l uses group l * G // L (integers: the official code rounds in floats and leaves groups unused for some L).
    With attention-only or FFN-only sharing both norms are per layer: the paper's parameter counts need it.
    """

    def sets(num_sets: int) -> tuple[int, ...]:
        """One set of blocks for every L / num_sets neighbouring layers."""
        return tuple(
            (layer * num_sets // num_layers) * inner_group_num + inner
            for layer in range(num_layers)
            for inner in range(inner_group_num)
        )

    sets_of_strategy: dict[Sharing, tuple[int, int, int]] = {
        "all": (1, 1, 1),
        "attention": (1, num_layers, num_layers),
        "ffn": (num_layers, 1, num_layers),
        "none": (num_layers, num_layers, num_layers),
        "groups": (num_groups, num_groups, num_groups),
    }
    attention, feed_forward, norms = sets_of_strategy[strategy]
    return SharingPlan(sets(attention), sets(feed_forward), sets(norms), inner_group_num)


def plan_of(config: ModelConfig, depth: int | None = None) -> SharingPlan:
    """The plan that a model of this configuration runs, with all its layers or ``depth``."""
    full = plan(config.sharing, config.num_layers, config.num_groups, config.inner_group_num)
    return full if depth is None else full.at_depth(depth)


def draw(plan: SharingPlan) -> str:
    """A picture of a plan: one column per block, one letter per parameter set.

    >>> print(draw(plan("groups", num_layers=6, num_groups=2)))
    layer        0  1  2  3  4  5
    attention    A  A  A  B  B  B
    feed-forward A  A  A  B  B  B
    norms        A  A  A  B  B  B
    """
    layers = [
        str(block // plan.inner_group_num) if block % plan.inner_group_num == 0 else ""
        for block in range(len(plan.attention))
    ]
    sets = {"attention": plan.attention, "feed-forward": plan.feed_forward, "norms": plan.norms}
    rows = {"layer": layers} | {name: list(map(_letters, sets[name])) for name in sets}
    width = max(2, *(len(cell) for cells in rows.values() for cell in cells))
    return "\n".join(
        f"{name:<13}" + " ".join(f"{cell:<{width}}" for cell in cells).rstrip() for name, cells in rows.items()
    )


def _letters(index: int) -> str:
    """0 -> A, 25 -> Z, 26 -> AA, as the columns of a spreadsheet."""
    prefix = _letters(index // 26 - 1) if index >= 26 else ""
    return prefix + chr(ord("A") + index % 26)
