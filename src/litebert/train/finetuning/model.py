"""Task models for training, and the loss of a batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from litebert.interop.hf import build_model, load_config, load_model
from litebert.model.head_table import Head
from litebert.model.heads import TaskModel
from litebert.predict.inputs import Batch
from litebert.predict.torch_backend import head_inputs


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
