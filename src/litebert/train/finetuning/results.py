"""What a finished fine-tuning leaves: model folder, scores, predictions, mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import nn

from litebert.common.config import from_dict, to_dict
from litebert.common.files import atomic_folder, read_json, write_json
from litebert.interop.card import model_card
from litebert.interop.hf import save_model
from litebert.model.config import ModelConfig
from litebert.model.head_table import Head
from litebert.tasks.base import Prediction
from litebert.tasks.mistakes import worst_mistakes
from litebert.tasks.scoring import TaskSplit
from litebert.tasks.task_file import TaskFile
from litebert.train.finetuning.data import TaskData

RESULT_FILE = "result.json"


@dataclass(frozen=True)
class FinetuneResult:
    """How a run ended; ``result.json`` of the run folder.

    Example:
        >>> result = read_result(Path("runs/rte"))
        >>> result.metric, result.scores[result.metric]
        ('accuracy', 0.61)
    """

    run: Path
    """the run folder"""
    task: str
    """the task"""
    metric: str
    """the score that picked the weights"""
    model: Path | None = None
    """folder of the best model; None if the run was interrupted"""
    scores: dict[str, float] = field(default_factory=dict)
    """official scores of the best weights on dev (medians over seeds, if several)"""
    other_scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """scores of further splits with labels, such as dev_mismatched"""
    exit_scores: dict[str, float] = field(default_factory=dict)
    """the main score on dev by the depth at which the model stops, with train_exits"""
    baseline: dict[str, float] = field(default_factory=dict)
    """what always saying the same scores"""
    best_step: int = 0
    """when the best weights were found"""
    steps: int = 0
    """steps done"""
    epochs: float = 0.0
    """passes over the training data"""
    train_examples: int = 0
    """examples learned from"""
    train_available: int = 0
    """examples of the whole training split"""
    dev_examples: int = 0
    """examples scored"""
    dev_available: int = 0
    """examples of the whole dev split"""
    tokens: int = 0
    """tokens trained on, without padding"""
    seconds: float = 0.0
    """time in the training loop, evaluations included"""
    bad_rows: dict[str, int] = field(default_factory=dict)
    """bad rows by reason"""
    seed: int = 0
    """the seed, or the first of several"""
    by_seed: tuple[dict[str, float], ...] = ()
    """scores of each seed, if there were several"""
    spread: dict[str, float] = field(default_factory=dict)
    """largest minus smallest of each score over the seeds"""
    interrupted_by: int = 0
    """signal that stopped the run, 0 if it came to its end"""

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        return to_dict(self)


def read_result(run: Path) -> FinetuneResult | None:
    """Read the result of a finished run; None if it has not finished."""
    path = run / RESULT_FILE
    if not path.is_file():
        return None
    return replace(from_dict(FinetuneResult, read_json(path), str(path)), run=run)


def write_result(result: FinetuneResult) -> None:
    """Write ``result.json``: the last file of a run, so that its presence means the end."""
    write_json(result.run / RESULT_FILE, result.to_json())


def write_predictions(
    run: Path, data: TaskData, split: TaskSplit, predictions: Sequence[Prediction]
) -> None:
    """Write predictions in the official format and, of the first split, the mistakes."""
    folder = run / "predictions" / split.name
    data.task.write_predictions(folder, split.name, split.examples, predictions)
    if split.name != data.evals[0].name:
        return
    form = data.task.form
    content = {
        "split": split.name,
        "kind": form.kind,
        "confusion": form.confusion(split.examples, predictions),
        "worst": worst_mistakes(form, split.examples, predictions),
    }
    write_json(run / "mistakes.json", content)


def save_task_model(
    model: nn.Module,
    folder: Path,
    head: Head,
    data: TaskData,
    tokenizer_folder: Path,
    scores: Mapping[str, float],
    about: str,
    depths: tuple[int, ...] = (),
) -> None:
    """Write a model folder that says in ``task.json`` and its card which task it is for.

    Args:
        model: what to save.
        folder: where.
        head: the kind of head.
        data: the task and its tokenizer.
        tokenizer_folder: where its files are.
        scores: on dev; a tuned no-answer threshold goes into ``task.json``.
        about: Markdown about the fine-tuning, for the card.
        depths: what ``--depth`` may ask for, for ``task.json``.
    """
    form = data.task.form
    task_file = replace(TaskFile.of(data.task.name, form, data.max_length), depths=depths)
    if "best_f1_thresh" in scores:
        task_file = replace(task_file, no_answer_threshold=scores["best_f1_thresh"])
    config = model.config
    assert isinstance(config, ModelConfig), "every model carries its configuration"
    card = model_card(config, head, f"{folder.parent.name}/{folder.name}") + about
    with atomic_folder(folder, replace=True) as temporary:
        save_model(
            model,
            temporary,
            tokenizer_folder,
            card,
            labels=form.labels or None,
            multi_label=form.multi_label,
        )
        task_file.write(temporary)
