"""Where a run stands: counters, data position, best score, plateau; as checkpoints store it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from litebert.common.config import from_dict
from litebert.train.pretraining.config import Metric
from litebert.train.pretraining.evaluate import Scores
from litebert.train.pretraining.feed import FeedPosition


@dataclass(frozen=True)
class FinalEvaluation:
    """The evaluation at the end of a run, which a resumed run need not repeat."""

    step: int
    """the last step of the run"""
    examples: int
    """dev examples of each kind that were asked for"""
    scores: Scores
    """what was found"""


@dataclass
class RunState:
    """Everything about a run that is neither weights nor optimizer.

    Example:
        >>> RunState.from_json(RunState(step=3).to_json()).step
        3
    """

    step: int = 0
    """steps done"""
    tokens: int = 0
    """tokens trained on, without padding"""
    elapsed_s: float = 0.0
    """time in the training loop, over all resumes"""
    nonfinite_total: int = 0
    """steps without an update because loss or gradient were not finite"""
    nonfinite_in_a_row: int = 0
    """how many of these are the latest"""
    best_value: float | None = None
    """best value of the chosen metric"""
    best_step: int | None = None
    """when it was found"""
    best_metric: Metric | None = None
    """the chosen metric"""
    left_plateau_step: int | None = None
    """when the model was first better than word frequencies"""
    plateau_reported: bool = False
    """whether staying on the plateau was reported"""
    feed: FeedPosition = field(default_factory=FeedPosition)
    """where the data stands"""
    final: FinalEvaluation | None = None
    """the evaluation at the end, once it is done"""

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> RunState:
        """The state that :meth:`to_json` gave."""
        return from_dict(cls, values, "checkpoint state")


class Clock:
    """Time in the training loop, continued from earlier runs.

    Example:
        >>> clock = Clock(before_s=120.0)
        >>> clock.elapsed_s() >= 120.0
        True
    """

    def __init__(self, before_s: float = 0.0) -> None:
        self._before_s = before_s
        self._started = time.monotonic()

    def elapsed_s(self) -> float:
        """Seconds so far."""
        return self._before_s + time.monotonic() - self._started
