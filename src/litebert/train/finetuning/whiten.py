"""A pooler that begins by making the states of a task's texts uncorrelated and of equal size.

What tells texts of a task apart is often a small part of their states: a few directions have most
of the variance, and a new head learns from those first. Through a whitened pooler it learns from
all directions alike, as a linear probe does, and the layers below are left alone meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from litebert.common.rng import rng
from litebert.model.heads import LinearHead
from litebert.predict.batches import micro_batches
from litebert.predict.inputs import pad
from litebert.predict.torch_backend import head_inputs
from litebert.tasks.base import Feature

MOST_FEATURES = 4096
"""Whose states tell how they vary."""
_DEVIATION = 0.5  # of each number before the pooler's tanh, which hardly bends it
_LEAST = 1e-3  # deviation of a direction at least: texts that are all the same have none
_RIDGE = 0.01  # of the mean variance: what hardly varies is not blown up without bound


@torch.no_grad()
def whiten_pooler(model: LinearHead, features: Sequence[Feature], pad_id: int, max_tokens: int, seed: int) -> None:
    """Give the pooler of a model weights that whiten the states of some features."""
    pooler = model.encoder.pooler
    is_training = model.training
    model.eval()
    chosen = rng(seed, "whitened pooler").permutation(len(features))[:MOST_FEATURES]
    some = [features[int(index)] for index in chosen]
    said = []
    for members in micro_batches(some, max_tokens):
        inputs = head_inputs(pad([some[i] for i in members], pad_id), pooler.weight.device)
        said.append(model.unpooled(model.states(inputs), inputs).double())
    model.train(is_training)
    states_NH = torch.cat(said)
    mean_H = states_NH.mean(0)
    moved_NH = states_NH - mean_H
    variances_H, directions_HH = torch.linalg.eigh(moved_NH.T @ moved_NH / len(moved_NH))
    floor = _RIDGE * variances_H.mean()
    factors_H = _DEVIATION / (variances_H.clamp(min=0) + floor).sqrt().clamp(min=_LEAST)
    weight_HH = (directions_HH * factors_H) @ directions_HH.T
    pooler.weight.copy_(weight_HH)
    pooler.bias.copy_(-weight_HH @ mean_H)
