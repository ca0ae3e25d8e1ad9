"""Task models: which head a kind needs, its loss, and its outputs as numpy."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from litebert.interop.hf import build_model, load_config, load_model
from litebert.model.head_table import Head
from litebert.model.heads import HeadInputs, TaskModel
from litebert.predict.collate import TaskBatch
from litebert.tasks.base import FloatArray, Form, Kind
from litebert.tasks.forms.spans import SpanForm

_HEADS: dict[Kind, Head] = {
    "classification": "classification",
    "multi_label": "classification",
    "regression": "regression",
    "multiple_choice": "multiple_choice",
    "span_extraction": "span",
    "token_classification": "token_classification",
}


def head_of(form: Form, choice: Literal["auto", "paper", "classic"] = "auto") -> Head:
    """Return the head for a form; questions that may have no answer get the paper's by default."""
    unanswerable = isinstance(form, SpanForm) and form.may_be_unanswerable
    if form.kind == "span_extraction" and (
        choice == "paper" or (choice == "auto" and unanswerable)
    ):
        return "squad2"
    return _HEADS[form.kind]


def heads_for(form: Form) -> tuple[Head, ...]:
    """Return the heads that can do a form's kind of task, whatever trained them."""
    head = _HEADS[form.kind]
    return (head, "squad2") if head == "span" else (head,)


def load_task_model(
    source: str,
    head: Head,
    num_labels: int,
    dropout: float,
    classifier_dropout: float,
    start: Literal["weights", "random"],
    generator: torch.Generator,
) -> nn.Module:
    """Load an encoder with a fresh head, or draw all of it at random in the folder's shape."""
    overrides: dict[str, object] = {
        "hidden_dropout": dropout,
        "attention_dropout": dropout,
        "classifier_dropout": classifier_dropout,
    }
    labels = num_labels or None
    if start == "random":
        return build_model(load_config(source, overrides), head, labels, generator)
    return load_model(
        source, head, new_head=True, num_labels=labels, overrides=overrides, generator=generator
    )


def batch_loss(
    model: nn.Module, batch: TaskBatch, device: torch.device, num_layers: int | None = None
) -> Tensor:
    """Return the loss of a batch summed over its labels (``batch.num_labels`` of them).

    The caller divides by their number over the whole step. ``num_layers`` runs fewer layers.
    """
    assert isinstance(model, TaskModel), "fine-tuning trains task models"
    assert batch.targets is not None, "training needs gold labels"
    targets = torch.from_numpy(batch.targets).to(device)
    return model.task_loss(_inputs(batch, device), targets, num_layers) * batch.num_labels


def batch_outputs(
    model: nn.Module, batch: TaskBatch, device: torch.device, num_layers: int | None = None
) -> dict[str, FloatArray]:
    """Return what the model says about a batch: output name -> float32 [B, ...]."""
    assert isinstance(model, TaskModel), "a task is asked of task models"
    outputs = model.named_outputs(_inputs(batch, device), num_layers)
    return {name: tensor.float().cpu().numpy() for name, tensor in outputs.items()}


def autocast(
    precision: Literal["auto", "float32", "bfloat16"], device: torch.device
) -> AbstractContextManager[object]:
    """Return the context for forward passes: bfloat16 where asked for or where it pays."""
    pays = device.type == "cuda" and torch.cuda.is_bf16_supported()
    if precision == "bfloat16" or (precision == "auto" and pays):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def _inputs(batch: TaskBatch, device: torch.device) -> HeadInputs:
    """Return the batch as tensors; None spares the model work where there is nothing to say."""
    segments = batch.token_type_ids if np.any(batch.token_type_ids) else None
    ids, mask, segments_RS, forbidden = (
        None if array is None else torch.from_numpy(array).to(device)
        for array in (batch.input_ids, batch.attention_mask, segments, batch.forbidden)
    )
    assert ids is not None, "every batch has ids"
    return HeadInputs(ids, mask, segments_RS, forbidden, num_choices=batch.num_choices)
