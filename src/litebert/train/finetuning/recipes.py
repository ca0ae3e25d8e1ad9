"""Fine-tuning recipes: the paper's Table 14, and scaled ones for small models and own tasks."""

from __future__ import annotations

from dataclasses import dataclass

from litebert.model.config import ModelConfig
from litebert.tasks.base import Task

PAPER_HIDDEN_SIZE = 768
"""Models narrower than ALBERT-base learn with the small recipes."""


@dataclass(frozen=True)
class Recipe:
    """How long and how fast to train.

    Args:
        lr: peak learning rate.
        batch_size: examples per step (windows, for spans).
        dropout: inside the encoder (Table 14: ALBERT DR).
        classifier_dropout: before the head (Classifier DR); the classic span head has none
            unless asked, as in the official code.
        steps: length of the run, unless ``epochs`` is given.
        epochs: length of the run in passes over the training data.
        warmup_share: share of the run until the peak.
        max_length: longest input in tokens.
        evals: evaluations on dev over the run, evenly spread, unless ``eval_every_steps``.
        eval_every_steps: steps between evaluations.
        bias_correction: Adam's correction of its running means. The official code has none, which
            makes the first steps several times larger than the rate says; on small sets that costs
            whole runs (Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning").

    Example:
        >>> PAPER_RECIPES["rte"].lr
        3e-05
    """

    lr: float
    batch_size: int
    dropout: float = 0.0
    classifier_dropout: float = 0.1
    steps: int | None = None
    epochs: float | None = None
    warmup_share: float = 0.1
    max_length: int = 512
    evals: int = 10
    eval_every_steps: int | None = None
    bias_correction: bool = True


def _paper(
    lr: float,
    batch_size: int,
    dropout: float,
    steps: int,
    warmup_steps: int,
    eval_every_steps: int,
    max_length: int = 512,
    classifier_dropout: float = 0.1,
) -> Recipe:
    """A row of Table 14; the intervals are those of the official scripts where they have one."""
    return Recipe(
        lr,
        batch_size,
        dropout,
        classifier_dropout,
        steps=steps,
        warmup_share=warmup_steps / steps,
        max_length=max_length,
        eval_every_steps=eval_every_steps,
        bias_correction=False,
    )


PAPER_RECIPES: dict[str, Recipe] = {
    "cola": _paper(1e-5, 16, 0.0, 5336, 320, 100),
    "stsb": _paper(2e-5, 16, 0.0, 3598, 214, 100),
    "sst2": _paper(1e-5, 32, 0.0, 20935, 1256, 100),
    "mnli": _paper(3e-5, 128, 0.0, 10000, 1000, 100),
    "qnli": _paper(1e-5, 32, 0.0, 33112, 1986, 200),
    "qqp": _paper(5e-5, 128, 0.1, 14000, 1000, 100),
    "rte": _paper(3e-5, 32, 0.1, 800, 200, 100),
    "mrpc": _paper(2e-5, 32, 0.0, 800, 200, 100),
    "wnli": _paper(2e-5, 16, 0.1, 2000, 250, 100),
    "squad1": _paper(5e-5, 48, 0.0, 3649, 365, 500, max_length=384, classifier_dropout=0.0),
    "squad2": _paper(3e-5, 48, 0.0, 8144, 814, 500),
    # Table 14's RACE row (2e-5, dropout 0.1) diverges on v2 models; the authors use this for them.
    "race": _paper(1e-5, 32, 0.0, 12000, 1000, 500),
    "race-v1": _paper(2e-5, 32, 0.1, 12000, 1000, 500),
}
"""Table 14. v1 and v2 models differ on RACE only: ``race`` is for v2, ``race-v1`` for v1."""

SMALL_RECIPES: dict[str, Recipe] = {
    "classification": Recipe(3e-4, 32, epochs=4, max_length=128),
    "regression": Recipe(3e-4, 32, epochs=6, max_length=128),
    "tags": Recipe(3e-4, 32, epochs=6, max_length=128),
    "choice": Recipe(2e-4, 16, epochs=2, max_length=384),
    "span": Recipe(3e-4, 32, epochs=2, max_length=384),
}
"""For models narrower than 768: higher rates, shorter inputs, lengths in epochs.

The rates are the upper end of what Turc et al. 2019 ("Well-Read Students Learn Better") tried for
BERTs of hidden size 128 to 512, and so are the four epochs; no search was made here.
"""

OWN_TASK_RECIPES: dict[str, Recipe] = {
    "classification": Recipe(2e-5, 32, epochs=4),
    "regression": Recipe(2e-5, 16, epochs=6),
    "tags": Recipe(3e-5, 32, epochs=4),
    "choice": Recipe(1e-5, 32, epochs=3),
    "span": Recipe(3e-5, 32, epochs=2, max_length=384),
}
"""For tasks that Table 14 does not have, with models of the paper's sizes."""


def recipe_for(task: Task, shape: ModelConfig) -> Recipe:
    """Return the recipe of a task for a model of this shape.

    The task's own ``max_length`` (a custom task file names one) bounds the recipe's.
    """
    kind = task.form.recipe
    if shape.hidden_size < PAPER_HIDDEN_SIZE:
        return SMALL_RECIPES[kind]
    name = "race" if task.name.startswith("race") else task.name
    return PAPER_RECIPES.get(name) or OWN_TASK_RECIPES[kind]
