"""Score a model on a task's dev set, and judge whether an export lost too much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import CheckpointError, ConfigError
from litebert.predict.predictor import Predictor
from litebert.tasks.base import Task
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import find_task


@dataclass(frozen=True)
class DevSet:
    """A task with the folder of its data.

    Example:
        >>> DevSet.parse("sst2:glue/SST-2").task.main_metric
        'accuracy'
    """

    task: Task
    data: Path

    @classmethod
    def parse(cls, text: str) -> DevSet:
        """Read ``TASK:DIR``."""
        name, separator, folder = text.partition(":")
        if not separator or not folder:
            raise ConfigError(f"--dev {text!r} should be TASK:DIR, such as sst2:glue/SST-2")
        return cls(find_task(name), Path(folder))

    def score(self, predictor: Predictor) -> float:
        """Return the task's main metric of a model on the first labelled split."""
        task = self.task
        examples = task.read(self.data, task.eval_splits[0], RowProblems())
        predictions = predictor.task_predictions(task, examples)
        return task.score(examples, predictions)[task.main_metric]


@dataclass(frozen=True)
class DevDrop:
    """The score before and after an export."""

    metric: str
    before: float
    after: float

    @property
    def share(self) -> float:
        """What was lost, as a share of the score before; negative if the export scores higher."""
        return (self.before - self.after) / abs(self.before) if self.before else 0.0

    def check(self, max_drop: float) -> None:
        """Raise CheckpointError if more than ``max_drop`` (a share) was lost."""
        if self.share > max_drop:
            raise CheckpointError(
                f"{self.metric} fell from {self.before:.4g} to {self.after:.4g}, more than "
                f"{max_drop:.0%}, so nothing was written; use --force to keep it"
            )
