"""The fine-tuning part of a model card: task, data, scores beside a baseline, recipe."""

from __future__ import annotations

from collections.abc import Mapping

from litebert.train.finetuning.config import FinetuneConfig, Settings
from litebert.train.finetuning.data import TaskData


def fine_tuning_section(
    config: FinetuneConfig,
    settings: Settings,
    data: TaskData,
    scores: Mapping[str, float],
    baseline: Mapping[str, float],
    best_step: int,
) -> str:
    """Return Markdown that says how a task model came about.

    Args:
        config: as asked for.
        settings: what was decided.
        data: what it learned from and was scored on.
        scores: of these weights on the first split with labels.
        baseline: what always saying the same scores there.
        best_step: when the weights were found.
    """
    dev = data.evals[0]
    epochs = settings.steps / settings.steps_per_epoch
    rows = "\n".join(
        f"| {name} | {value:.4g} | {baseline[name]:.4g} |" if name in baseline
        else f"| {name} | {value:.4g} | |"
        for name, value in scores.items()
    )  # fmt: skip
    labels = ""
    if data.task.form.labels:
        labels = f"\nLabels: {', '.join(f'`{label}`' for label in data.task.form.labels)}.\n"
    correction = "" if settings.bias_correction else " without bias correction"
    recipe = {
        "optimizer": f"AdamW{correction}, weight decay {config.weight_decay:g}",
        "learning rate": f"{settings.lr:g} after warm-up, then linear to 0",
        "steps": f"{settings.steps:,} ({epochs:.3g} epochs), {settings.warmup_steps:,} of warm-up",
        "examples a step": f"{settings.batch_size}",
        "longest input": f"{settings.max_length} tokens",
        "dropout": f"{settings.dropout:g}, before the head {settings.classifier_dropout:g}",
        "gradients clipped to": f"{config.clip_norm:g}",
        "seed": f"{config.seed}",
    }
    recipe_rows = "\n".join(f"| {key} | {value} |" for key, value in recipe.items())
    start = "weights" if config.start == "weights" else "random weights in the shape"
    return f"""
## Fine-tuning

Task `{data.task.name}` ({data.task.form.kind.replace("_", " ")}), from the {start} of
`{config.model}`; {_count(data, "train", len(data.train.examples))} training examples.
{labels}
Scores on {_count(data, dev.name, len(dev.examples))} examples of the {dev.name} split, which also
picked these weights (step {best_step:,}). The baseline looks at no text.

| {dev.name} | score | baseline |
| --- | --- | --- |
{rows}

| recipe | |
| --- | --- |
{recipe_rows}
"""


def _count(data: TaskData, split: str, used: int) -> str:
    whole = data.available[split]
    return f"{used:,}" if used == whole else f"{used:,} of {whole:,}"
