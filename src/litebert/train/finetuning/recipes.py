"""Fine-tuning recipes: the file below ``configs/finetune/`` that a task and a model learn by."""

from __future__ import annotations

from dataclasses import dataclass

from litebert.common.config import load_toml, recipe_path
from litebert.model.config import ModelConfig
from litebert.tasks.base import Task
from litebert.tasks.registry import TASK_NAMES

PAPER_HIDDEN_SIZE = 768
"""Models narrower than ALBERT-base learn with the small recipes."""

_FILE_OF_TASK = {name: name for name in TASK_NAMES} | {
    # RACE learns by the setting for v2 models, on which the row of Table 14 (race-v1) diverges.
    **dict.fromkeys(("race", "race-middle", "race-high"), "race-v2"),
    "ax": "mnli",
}


@dataclass(frozen=True)
class Recipe:
    """What a recipe file says; every field is one of ``FinetuneConfig`` and documented there."""

    lr: float
    batch_size: int
    dropout: float
    max_length: int
    bias_correction: bool
    classifier_dropout: float = 0.1
    steps: int | None = None
    epochs: float | None = None
    warmup_steps: int | None = None
    eval_every_steps: int | None = None

    @property
    def warmup_share(self) -> float:
        """Share of the run until the peak, for runs of another length."""
        if self.steps is None or self.warmup_steps is None:
            return 0.1
        return self.warmup_steps / self.steps


def recipe_for(task: Task, shape: ModelConfig) -> Recipe:
    """The recipe of a task for a model of this shape: Table 14, or one for the kind of task."""
    kind = task.form.recipe
    if shape.hidden_size < PAPER_HIDDEN_SIZE:
        name = f"small-{kind}"
    else:
        name = _FILE_OF_TASK.get(task.name, f"base-{kind}")
    return load_toml(Recipe, recipe_path("finetune", name))
