"""Run a task model over features, in batches of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from litebert.common.progress import Progress
from litebert.predict.collate import collate, split_outputs
from litebert.tasks.base import Feature, Outputs, Prediction, Task
from litebert.train.finetuning.data import TaskSplit
from litebert.train.finetuning.model import autocast, batch_outputs
from litebert.train.finetuning.order import micro_batches


def predict_features(
    model: nn.Module,
    features: Sequence[Feature],
    pad_id: int,
    *,
    max_tokens: int,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    bar: Progress | None = None,
    num_layers: int | None = None,
) -> list[Outputs]:
    """Return what the model says about each feature, in their order.

    Args:
        model: a task model; it is put into evaluation mode and back.
        features: model inputs.
        pad_id: the tokenizer's.
        max_tokens: padded tokens of one batch.
        precision: as in training.
        bar: counts finished features.
        num_layers: layers to run; None runs all.
    """
    device = next(model.parameters()).device
    found: dict[int, Outputs] = {}
    was_training = model.training
    model.eval()
    with torch.inference_mode(), autocast(precision, device):
        for indices in micro_batches(features, max_tokens):
            members = [features[index] for index in indices]
            outputs = batch_outputs(model, collate(members, pad_id), device, num_layers)
            found.update(zip(indices, split_outputs(members, outputs), strict=True))
            if bar is not None:
                bar.advance(len(indices))
    model.train(was_training)
    return [found[index] for index in range(len(features))]


def score_split(
    task: Task, split: TaskSplit, outputs: Sequence[Outputs]
) -> tuple[dict[str, float], list[Prediction]]:
    """Decode outputs and return the official scores and the predictions."""
    predictions = task.form.decode(split.examples, split.features, outputs)
    return task.score(split.examples, predictions), predictions
