"""An experiment as its file has it: conditions, measures, contrasts, the paper's figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from litebert.common.config import load_toml, recipe_path
from litebert.common.errors import ConfigError

Scale = Literal["cpu", "paper"]
Weights = dict[str, float]  # conditions by name: a sum of their values, each times its weight
RECIPES: dict[Scale, str] = {"cpu": "evidence", "paper": "paper"}  # of pretraining, which conditions change


@dataclass(frozen=True)
class Variant:
    """A condition at one scale."""

    change: dict[str, object] = field(default_factory=dict)
    """settings of pretrain, with dots: {"model.sharing" = "ffn"}"""
    start: str = ""
    """condition whose model it starts from, run with the same seed"""
    share: float = 1.0
    """of the scale's length"""
    corpora: int = 0
    """how many of the folders of data it learns from; 0: all"""


@dataclass(frozen=True)
class Condition:
    """One row of the table, or a start that rows have in common."""

    name: str
    cpu: Variant | None = None
    paper: Variant | None = None
    is_row: bool = True
    """false: others start from it"""
    figures: dict[str, str] = field(default_factory=dict)
    """the paper's, by column"""

    def at(self, scale: Scale) -> Variant | None:
        """What it is at a scale, if it is there."""
        return self.cpu if scale == "cpu" else self.paper


@dataclass(frozen=True)
class Contrast:
    """What the paper found, as a number whose sign says whether it holds."""

    claim: str
    measure: str
    weights: Weights
    """the number: this sum, less the constant"""
    expect: Literal["above", "below", "equal"]
    """where the paper has it: above 0, below 0, or too close to 0 to matter"""
    constant: float = 0.0
    margin: float = 0.0
    """the mean must be so far from 0 to count"""
    gap: Weights = field(default_factory=dict)
    """for equal: a third of this sum is what matters"""

    def __post_init__(self) -> None:
        if (self.expect == "equal") != bool(self.gap):
            raise ConfigError(f'contrast "{self.claim}": expect = "equal" and gap go together')


@dataclass(frozen=True)
class Exact:
    """What needs no run: a count or a recipe that must equal the paper's."""

    name: str
    """a preset, or a recipe of finetune"""
    expected: dict[str, float]
    """parameters of the encoder, or settings of the recipe"""


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper."""

    title: str
    finding: str
    """what the paper says, in one sentence"""
    conditions: tuple[Condition, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    exact: tuple[Exact, ...] = ()
    measures: tuple[str, ...] = ("masked_loss",)
    """columns of our table"""
    settings: dict[str, object] = field(default_factory=dict)
    """settings of pretrain at scale cpu that all conditions have"""
    tasks: tuple[str, ...] = ()
    """tasks that every model at scale cpu is fine-tuned on"""
    layers: bool = False
    """whether Figure 1 is drawn of its models"""
    curve: str = "dev_masked_loss"
    """what the picture shows of each run"""
    seeds: int = 3
    corpora: int = 1
    """folders of data that it needs"""
    note: str = ""
    """what differs from the paper, or why it is not run at scale cpu"""

    def __post_init__(self) -> None:
        used = {name for contrast in self.contrasts for name in contrast.weights | contrast.gap}
        variants = [v for one in self.conditions for v in (one.cpu, one.paper) if v is not None]
        used |= {variant.start for variant in variants if variant.start}
        for name in sorted(used - {condition.name for condition in self.conditions}):
            raise ConfigError(f'{self.title}: there is no condition "{name}"')

    def rows(self, scale: Scale) -> list[Condition]:
        """The conditions of a scale that are rows of the table."""
        return [one for one in self.conditions if one.is_row and one.at(scale) is not None]


def load_experiment(name: str) -> Experiment:
    """The experiment of that name, such as ``table4``."""
    return load_toml(Experiment, recipe_path("experiments", name))


def experiment_names() -> list[str]:
    """All experiments, tables first, in the paper's order."""
    names = [path.stem for path in recipe_path("experiments", "table1").parent.glob("*.toml")]
    return sorted(names, key=lambda name: (not name.startswith("table"), len(name), name))
