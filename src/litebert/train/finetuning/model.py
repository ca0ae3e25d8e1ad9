"""Task models for training: which head a kind of task gets, and the loss of a batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from litebert.interop.hf import build_model, load_config, load_model
from litebert.model.head_table import Head
from litebert.model.heads import TaskModel
from litebert.predict.inputs import Batch
from litebert.predict.purpose import HEADS_OF_KIND
from litebert.predict.torch_backend import head_inputs
from litebert.tasks.base import Form
from litebert.tasks.forms.spans import SpanForm


def head_of(form: Form, choice: Literal["auto", "paper", "classic"] = "auto") -> Head:
    """Return the head for a form; questions that may have no answer get the paper's by default."""
    unanswerable = isinstance(form, SpanForm) and form.may_be_unanswerable
    if form.kind == "span_extraction" and (
        choice == "paper" or (choice == "auto" and unanswerable)
    ):
        return "squad2"
    return HEADS_OF_KIND[form.kind][0]


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
    model: nn.Module, batch: Batch, device: torch.device, num_layers: int | None = None
) -> Tensor:
    """Return the loss of a batch summed over its labels (``batch.num_labels`` of them).

    The caller divides by their number over the whole step. ``num_layers`` runs fewer layers.
    """
    assert isinstance(model, TaskModel), "fine-tuning trains task models"
    assert batch.targets is not None, "training needs gold labels"
    targets = torch.from_numpy(batch.targets).to(device)
    return model.task_loss(head_inputs(batch, device), targets, num_layers) * batch.num_labels
