"""Task models: which head a kind needs, its loss, and its outputs as numpy."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.interop.hf import build_model, load_config, load_model
from litebert.interop.names import Head
from litebert.model.heads import (
    MultipleChoice,
    SequenceClassifier,
    SequenceRegressor,
    SpanExtractor,
    Squad2Model,
    Squad2Prediction,
    Squad2Training,
    TokenClassifier,
)
from litebert.model.layers import at_least_float32
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
    assert batch.targets is not None, "training needs gold labels"
    targets = torch.from_numpy(batch.targets).to(device)
    ids, mask, segments = _inputs(batch, device)
    if isinstance(model, Squad2Model):
        assert batch.forbidden is not None, "span batches say where answers may be"
        forbidden = torch.from_numpy(batch.forbidden).to(device)
        out = model(ids, mask, segments, forbidden, *targets.unbind(1), num_layers=num_layers)
        assert isinstance(out, Squad2Training), "asked for with gold starts"
        loss = out.loss
    elif isinstance(model, SpanExtractor):
        loss = model(ids, mask, segments, targets[:, 0], targets[:, 1], num_layers).loss
    elif isinstance(model, SequenceClassifier) and targets.is_floating_point():
        logits = at_least_float32(model(ids, mask, segments, num_layers=num_layers).logits)
        loss = F.binary_cross_entropy_with_logits(logits, targets)
    elif isinstance(model, MultipleChoice):
        loss = model(*_by_choice(batch, ids, mask, segments), targets, num_layers).loss
    else:
        loss = model(ids, mask, segments, targets, num_layers).loss
    assert isinstance(loss, Tensor), "every head gives a loss when it is given labels"
    return loss * batch.num_labels


def batch_outputs(
    model: nn.Module, batch: TaskBatch, device: torch.device, num_layers: int | None = None
) -> dict[str, FloatArray]:
    """Return what the model says about a batch: output name -> float32 [B, ...]."""
    ids, mask, segments = _inputs(batch, device)
    if isinstance(model, Squad2Model):
        assert batch.forbidden is not None, "span batches say where answers may be"
        forbidden = torch.from_numpy(batch.forbidden).to(device)
        beam = model(ids, mask, segments, forbidden, num_layers=num_layers)
        assert isinstance(beam, Squad2Prediction), "asked for without gold"
        outputs = {
            "start_top_log_probs": beam.start_top_log_probs_BK,
            "start_top_index": beam.start_top_index_BK,
            "end_top_log_probs": beam.end_top_log_probs_BKK,
            "end_top_index": beam.end_top_index_BKK,
            "answer_logits": beam.answer_logits_B,
        }
    elif isinstance(model, SpanExtractor):
        span = model(ids, mask, segments, num_layers=num_layers)
        outputs = {"start_logits": span.start_logits_BS, "end_logits": span.end_logits_BS}
    elif isinstance(model, MultipleChoice):
        choices = _by_choice(batch, ids, mask, segments)
        outputs = {"logits": model(*choices, num_layers=num_layers).logits}
    elif isinstance(model, TokenClassifier):
        outputs = {"token_logits": model(ids, mask, segments, num_layers=num_layers).logits}
    elif isinstance(model, SequenceRegressor):
        scores_B = model(ids, mask, segments, num_layers=num_layers).scores_B
        outputs = {"logits": scores_B[:, None]}
    else:
        outputs = {"logits": model(ids, mask, segments, num_layers=num_layers).logits}
    return {name: tensor.float().cpu().numpy() for name, tensor in outputs.items()}


def autocast(
    precision: Literal["auto", "float32", "bfloat16"], device: torch.device
) -> AbstractContextManager[object]:
    """Return the context for forward passes: bfloat16 where asked for or where it pays."""
    pays = device.type == "cuda" and torch.cuda.is_bf16_supported()
    if precision == "bfloat16" or (precision == "auto" and pays):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def _inputs(batch: TaskBatch, device: torch.device) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return ids, mask and segments; None spares the model work where there is nothing to say."""
    mask = None
    if batch.attention_mask is not None:
        mask = torch.from_numpy(batch.attention_mask).to(device)
    segments = None
    if np.any(batch.token_type_ids):
        segments = torch.from_numpy(batch.token_type_ids).to(device)
    return torch.from_numpy(batch.input_ids).to(device), mask, segments


def _by_choice(
    batch: TaskBatch, ids: Tensor, mask: Tensor | None, segments: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Fold rows [B * C, S] to [B, C, S]."""
    shape = (-1, batch.num_choices, ids.shape[1])
    return (
        ids.view(shape),
        None if mask is None else mask.view(shape),
        None if segments is None else segments.view(shape),
    )
