"""What a fine-tuning leaves: scores, predictions, mistakes, model folder, card; of seeds too."""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from torch import nn

from litebert.common.config import from_dict, to_dict
from litebert.common.files import atomic_folder, read_json, write_json
from litebert.common.progress import progress
from litebert.common.runs import BASELINES, MISTAKES_FILE, RESULT_FILE, RunFolder
from litebert.dist.runtime import Process
from litebert.interop.card import model_card
from litebert.interop.folder import resolve
from litebert.interop.hf import save_model
from litebert.interop.pooling import VectorRule
from litebert.model.config import ModelConfig
from litebert.model.head_table import Head
from litebert.model.similarity import SentenceEncoder
from litebert.predict.evaluate import outputs_of
from litebert.predict.torch_backend import TorchBackend
from litebert.tasks.base import Prediction
from litebert.tasks.baselines import baseline_of
from litebert.tasks.custom import CustomTask
from litebert.tasks.scoring import TaskSplit, score_split, scores_by_class, worst_mistakes
from litebert.tasks.task_file import TaskFile
from litebert.train.finetuning.config import FinetuneConfig, Settings
from litebert.train.finetuning.setup import TaskData, check_same_settings

Scores = Mapping[str, float]

_TOKENS_FACTOR = 2  # without gradients more fits
_ABOUT = {
    "words": "The bag of words is a linear model of word counts, without any pretraining.",
    "random": "Random weights had the same fine-tuning, without any pretraining.",
    "untrained": "Untrained are the mean vectors of the model it started from.",
}
"""What the columns beside the scores are, in a card."""


@dataclass(frozen=True)
class FinetuneResult:
    """How a run ended; ``result.json`` of the run folder."""

    run: Path
    task: str
    metric: str  # the score that picked the weights
    model: Path | None = None  # folder of the best model; None if the run was interrupted
    scores: dict[str, float] = field(default_factory=dict)
    """of the best weights on dev (medians over seeds)"""
    other_scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """of further splits, as dev_mismatched"""
    exit_scores: dict[str, float] = field(default_factory=dict)
    """the main one on dev by depth, with train_exits"""
    baseline: dict[str, float] = field(default_factory=dict)
    """what always saying the same scores"""
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    """what was asked for besides: words, random"""
    best_step: int = 0
    steps: int = 0
    epochs: float = 0.0
    train_examples: int = 0
    train_available: int = 0  # of the whole split, of which those were learned from
    dev_examples: int = 0
    dev_available: int = 0  # of the whole split, of which those were scored
    tokens: int = 0  # trained on, without padding
    seconds: float = 0.0  # in the training loop, evaluations included
    bad_rows: dict[str, int] = field(default_factory=dict)
    seed: int = 0  # or the first of several
    by_seed: tuple[dict[str, float], ...] = ()  # scores of each, if there were several
    spread: dict[str, float] = field(default_factory=dict)  # largest minus smallest of each score over the seeds
    interrupted_by: int = 0  # signal that stopped the run, 0 if it came to its end


def earlier_result(config: FinetuneConfig) -> FinetuneResult | None:
    """The result if the run has finished; a run that is not to be resumed is refused."""
    path = config.out / RESULT_FILE
    if config.resume == "no":
        RunFolder.refuse_existing(config.out)
        return None
    if RunFolder.exists(config.out):
        check_same_settings(config)
    found = from_dict(FinetuneResult, read_json(path), str(path)) if path.is_file() else None
    return found and replace(found, run=config.out)


def write_result(result: FinetuneResult) -> None:
    """Write ``result.json``: the last file of a run, so that its presence means the end."""
    write_json(result.run / RESULT_FILE, to_dict(result))


def word_baselines(data: TaskData, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """What models of words alone score on the first split; a line where there is none."""
    form, train, dev = data.task.form, data.train.examples, data.evals[0].examples
    found = {}
    for name in names:
        if (predictions := baseline_of(name, form, train, dev)) is not None:
            found[name] = data.task.score(dev, predictions)
        else:
            print(f"baseline {name}: does not apply to {form.kind.replace('_', ' ')}", file=sys.stderr)
    return found


class Scorer:
    """Scores splits of a run's data with the weights that its model has at the moment."""

    def __init__(self, config: FinetuneConfig, data: TaskData, model: nn.Module, process: Process) -> None:
        self.config, self.data, self.model, self.process = config, data, model, process
        self.scale = data.scale  # that of what the model says; None once it is folded into the head

    def scores(
        self, split: TaskSplit, depth: int | None = None, out: Path | None = None, shown: bool = False
    ) -> dict[str, float]:
        """Official scores, the same on every process; ``out``: run for predictions and mistakes."""
        process, data, form = self.process, self.data, self.data.task.form
        head: Head | None = None
        if isinstance(self.model, SentenceEncoder):
            head, form = "encoder", form.changed(pooling=self.model.pooling)
        backend = TorchBackend(self.model, head, self.config.precision)
        own = split.features[process.rank :: process.world_size]
        most = _TOKENS_FACTOR * self.config.max_tokens
        with (
            progress(f"scoring {split.name}", len(own), "input") if shown and process.is_main else nullcontext() as bar
        ):
            outputs = outputs_of(backend, form, own, data.tokenizer.pad_id, max_tokens=most, depth=depth, bar=bar)
        parts = process.gather(outputs)

        def score() -> dict[str, float]:
            # Every process said what it took: one feature after the other.
            in_order = [said for taken in zip_longest(*parts) for said in taken if said is not None]
            if self.scale is not None:
                in_order = [self.scale.restored(said) for said in in_order]
            scores, predictions = score_split(data.task, split, in_order)
            if out is not None:
                write_predictions(out, data, split, predictions)
            return scores

        return process.on_main(score)

    def by_depth(self, split: TaskSplit, depths: tuple[int, ...]) -> dict[str, float]:
        """The main score at each depth."""
        return {str(depth): self.scores(split, depth)[self.data.task.main_metric] for depth in depths}

    def save_model(self, folder: Path, head: Head, scores: Scores, about: str, depths: tuple[int, ...]) -> None:
        """Write a model folder that says in ``task.json`` and its card which task it is for.

        ``scores`` are on dev, a tuned threshold among them; ``about`` is Markdown for the card.
        """
        data, model, rule = self.data, self.model, None
        form = data.task.form.fitted(data.train.examples)
        task_file = replace(TaskFile.of(data.task.name, form, data.max_length), depths=depths)
        if isinstance(data.task, CustomTask):
            task_file = replace(task_file, columns=data.task.columns)
        if "best_f1_thresh" in scores:
            task_file = replace(task_file, no_answer_threshold=scores["best_f1_thresh"])
        if isinstance(model, SentenceEncoder):
            rule, model = VectorRule(model.pooling, normalize=True), model.encoder
        shape = model.config
        assert isinstance(shape, ModelConfig), "every model carries its configuration"
        card, source = model_card(shape, head, f"{folder.parent.name}/{folder.name}"), resolve(self.config.model)
        with atomic_folder(folder, replace=True) as temporary:
            labels, flags = form.labels or None, form.multi_label
            save_model(model, temporary, source, card + about, labels=labels, multi_label=flags)
            task_file.write(temporary)
            if rule is not None:
                rule.write(temporary, shape.hidden_size, shape.max_positions)


def write_predictions(run: Path, data: TaskData, split: TaskSplit, predictions: Sequence[Prediction]) -> None:
    """Write predictions in the official format and, of the first split, the mistakes."""
    form, folder = data.task.form, run / "predictions" / split.name
    data.task.write_predictions(folder, split.name, split.examples, predictions)
    if split.name != data.evals[0].name:
        return
    values = {prediction.value for prediction in predictions}
    if form.needs_labels and len(values) == 1 and len({e.gold for e in split.examples}) > 1:
        said = f"warning: every {split.name} example gets the same answer, {form.named(None, *values)}"
        print(f"{said}; train longer (--epochs) or with another rate (--lr)", file=sys.stderr)
    content = {
        "split": split.name,
        "kind": form.kind,
        "confusion": form.confusion(split.examples, predictions),
        "classes": scores_by_class(form, split.examples, predictions),
        "worst": worst_mistakes(form, split.examples, predictions),
    }
    write_json(run / MISTAKES_FILE, content)


def fine_tuning_section(
    config: FinetuneConfig,
    settings: Settings,
    data: TaskData,
    scores: Scores,
    baselines: Mapping[str, Scores],
    step: int,
) -> str:
    """Return Markdown that says how the task model of a step came about; scores of the first split."""
    dev, epochs = data.evals[0], settings.steps / settings.steps_per_epoch
    rows = [(dev.name, "score", *baselines), ("---",) * (2 + len(baselines))]
    for name, value in scores.items():
        beside = (f"{of[name]:.4g}" if name in of else "" for of in baselines.values())
        rows.append((name, f"{value:.4g}", *beside))
    score_rows = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    about = [text for name, text in _ABOUT.items() if BASELINES[name] in baselines]
    explained = " ".join(["The baseline looks at no text.", *about])
    named = ", ".join(f"`{label}`" for label in data.task.form.labels)
    labels = f"\nLabels: {named}.\n" if named else ""
    correction = "" if settings.bias_correction else " without bias correction"
    start = "weights" if config.start == "weights" else "random weights in the shape"
    return f"""
## Fine-tuning

Task `{data.task.name}` ({data.task.form.kind.replace("_", " ")}), from the {start} of
`{config.model}`; {_count(data, "train", len(data.train.examples))} training examples.
{labels}
Scores on {_count(data, dev.name, len(dev.examples))} examples of the {dev.name} split, which also
picked these weights (step {step:,}). {explained}

{score_rows}

| recipe | |
| --- | --- |
| optimizer | AdamW{correction}, weight decay {config.weight_decay:g} |
| learning rate | {settings.lr:g} after warm-up, then linear to 0 |
| steps | {settings.steps:,} ({epochs:.3g} epochs), {settings.warmup_steps:,} of warm-up |
| examples a step | {settings.batch_size} |
| longest input | {settings.max_length} tokens |
| dropout | {settings.dropout:g}, before the head {settings.classifier_dropout:g} |
| gradients clipped to | {config.clip_norm:g} |
| seed | {config.seed} |
"""


def _count(data: TaskData, split: str, used: int) -> str:
    whole = data.available[split]
    return f"{used:,}" if used == whole else f"{used:,} of {whole:,}"


def open_seeds_run(config: FinetuneConfig) -> None:
    """Create the folder that holds the runs of all seeds, unless it is to be resumed."""
    if config.resume == "no" or not RunFolder.exists(config.out):
        seeds = {f"run-{number}": config.seed + number for number in range(config.seeds)}
        RunFolder.create(config.out, to_dict(config), seeds)


def summarize_seeds(run: Path, results: Sequence[FinetuneResult]) -> FinetuneResult:
    """Write the medians as the result, with the spread and the model of the best seed."""
    best = max(results, key=lambda result: result.scores[result.metric])
    assert best.model is not None, "finished runs have a model"
    with atomic_folder(run / "model", replace=True) as temporary:
        shutil.copytree(best.model, temporary, dirs_exist_ok=True)

    def medians(scores: Sequence[Scores]) -> dict[str, float]:
        return {name: statistics.median([float(s[name]) for s in scores]) for name in scores[0]}

    columns = {name: [float(r.scores[name]) for r in results] for name in results[0].scores}
    summary = replace(
        results[0],
        run=run,
        model=run / "model",
        scores=medians([r.scores for r in results]),
        other_scores={name: medians([r.other_scores[name] for r in results]) for name in results[0].other_scores},
        exit_scores=medians([r.exit_scores for r in results]),
        spread={name: max(values) - min(values) for name, values in columns.items()},
        by_seed=tuple({"seed": float(r.seed), **r.scores} for r in results),
        best_step=best.best_step,
        tokens=sum(r.tokens for r in results),
        seconds=round(sum(r.seconds for r in results), 3),
    )
    write_result(summary)
    return summary
