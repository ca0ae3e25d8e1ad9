"""Small numpy functions over logits that every form shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from litebert.common.errors import InputError

if TYPE_CHECKING:
    from litebert.tasks.base import FloatArray, Said

SMALLEST_PROBABILITY = 1e-30


def softmax(logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the probabilities over the last axis, float64, same shape."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def sigmoid(logit: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return 1 / (1 + exp(-logit)) without overflow, float64, same shape."""
    return np.asarray(0.5 * (1.0 + np.tanh(np.asarray(logit, np.float64) / 2)))


def require_labels(num_outputs: int, labels: Sequence[str]) -> None:
    """Raise InputError unless the model has one output for each label."""
    if num_outputs != len(labels):
        raise InputError(
            f"the model has {num_outputs} labels, the task {len(labels)} "
            f"({', '.join(labels)}); choose a model fine-tuned for this task"
        )


def mean_of(outputs: Said, name: str) -> FloatArray:
    """Return the mean of one output over models, float32."""
    stacked = np.stack([output[name] for output in outputs])
    return np.asarray(stacked.mean(axis=0, dtype=np.float64), np.float32)


def mean_log_probability(outputs: Said, name: str) -> FloatArray:
    """Return the logarithm of the mean probability over models, float32: logits again."""
    mean = np.stack([softmax(output[name]) for output in outputs]).mean(axis=0)
    return np.asarray(np.log(np.maximum(mean, SMALLEST_PROBABILITY)), np.float32)
