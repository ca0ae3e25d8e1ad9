"""Where a pretraining run stands: data position, best score, plateau; as checkpoints store it."""

from __future__ import annotations

from dataclasses import dataclass, field

from litebert.train.pretraining.config import Metric
from litebert.train.pretraining.feed import FeedPosition
from litebert.train.run import TrainState


@dataclass(frozen=True)
class Scores:
    """What an evaluation found. Accuracies are shares; losses are nats per token."""

    mlm_loss: float
    """mean loss over all predicted tokens"""
    mlm_accuracy: float
    """share of predicted tokens that scored highest"""
    masked_loss: float
    """mean loss where the input is [MASK]: nothing to copy there"""
    masked_accuracy: float
    """share of right words where the input is [MASK]"""
    unigram_loss: float
    """loss, where the input is [MASK], of a model that knows nothing but word frequencies"""
    sop_accuracy: float | None = None
    """share of sentence orders recognised"""
    nsp_accuracy: float | None = None
    """share of random second segments recognised"""
    predictions: int = 0
    """predicted tokens"""
    sop_pairs: int = 0
    """pairs that sop_accuracy is of"""
    nsp_pairs: int = 0
    """pairs that nsp_accuracy is of"""


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
class RunState(TrainState):
    """Everything about a pretraining run that is neither weights nor optimizer."""

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

    def kept_steps(self) -> list[int]:
        """The best step."""
        return [] if self.best_step is None else [self.best_step]
