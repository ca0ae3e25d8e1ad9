"""Where a fine-tuning run stands, and which of its settings a resumed run may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from litebert.common.config import from_dict, to_dict
from litebert.common.runs import RunFolder
from litebert.interop.folder import load_config
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.run import TrainState, refuse_changes

_FREE_SETTINGS = ("out", "resume", "log_every_steps", "device", "max_tokens")


@dataclass
class FinetuneState(TrainState):
    """Everything about a fine-tuning run that is neither weights nor optimizer.

    >>> FinetuneState(step=100, kept=((0.91, 100),)).best
    (0.91, 100)
    """

    kept: tuple[tuple[float, ...], ...] = ()
    """(score, step) of the best evaluations, best first"""
    evals_since_best: int = 0
    """evaluations since the best one"""

    @property
    def best(self) -> tuple[float, int] | None:
        """Score and step of the best evaluation."""
        return (self.kept[0][0], int(self.kept[0][1])) if self.kept else None

    def kept_steps(self) -> list[int]:
        """Steps of the best evaluations, best first."""
        return [int(step) for _, step in self.kept]

    def add(self, score: float, num_kept: int) -> bool:
        """Note an evaluation of the current step; return whether its weights are to be kept."""
        is_best = not self.kept or score > self.kept[0][0]
        self.evals_since_best = 0 if is_best else self.evals_since_best + 1
        # Of equal scores the earlier one counts as better.
        ranked = sorted((*self.kept, (score, float(self.step))), key=lambda e: (-e[0], e[1]))
        self.kept = tuple(ranked[:num_kept])
        return self.step in self.kept_steps()


def finetuning_identity(config: FinetuneConfig) -> dict[str, object]:
    """What must not change between the parts of a run: settings, and the shape of the model."""
    shape = to_dict(load_config(config.model))
    return {**_settings(config), **{f"model.{key}": value for key, value in shape.items()}}


def check_same_settings(config: FinetuneConfig) -> None:
    """Refuse to go on with the run in ``config.out`` if its settings were others."""
    theirs = RunFolder.open(config.out).manifest()["config"]
    assert isinstance(theirs, Mapping), "written by RunFolder"
    # Settings that the run's version did not have yet had what is their default now.
    before = from_dict(FinetuneConfig, theirs, str(config.out))
    refuse_changes(config.out, _settings(before), _settings(config))


def _settings(config: FinetuneConfig) -> dict[str, object]:
    return {key: value for key, value in to_dict(config).items() if key not in _FREE_SETTINGS}
