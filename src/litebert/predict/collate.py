"""Features padded into one batch of numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from litebert.tasks.base import IGNORED_LABEL, Feature, FloatArray, IntArray, Outputs

PER_POSITION = frozenset({"start_logits", "end_logits", "token_logits"})
"""Outputs with a sequence dimension, to be cut to each feature's length."""


@dataclass(frozen=True)
class TaskBatch:
    """A padded batch; R rows is B features times the number of choices (usually 1).

    Args:
        input_ids: int64 [R, S].
        attention_mask: bool [R, S], True for real tokens; None if nothing is padded.
        token_type_ids: int64 [R, S].
        targets: what the features' targets stack to, [B, ...]; None without gold.
        forbidden: bool [R, S], True where no answer may be, padding included; None without spans.
        num_choices: rows per feature.
        num_labels: what a mean loss is over: features, or tagged words.
        num_tokens: tokens that are not padding.
    """

    input_ids: IntArray
    attention_mask: npt.NDArray[np.bool_] | None
    token_type_ids: IntArray
    targets: npt.NDArray[np.generic] | None
    forbidden: npt.NDArray[np.bool_] | None
    num_choices: int
    num_labels: int
    num_tokens: int


def collate(features: Sequence[Feature], pad_id: int) -> TaskBatch:
    """Pad features to the longest of them.

    Example:
        >>> collate(features, tokenizer.pad_id).input_ids.shape
        (8, 27)
    """
    rows = [row for feature in features for row in feature.rows]
    lengths = [len(row) for row in rows]
    shape = (len(rows), max(lengths))
    input_ids = np.full(shape, pad_id, np.int64)
    token_type_ids = np.zeros(shape, np.int64)
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        input_ids[index, :length] = row.ids
        token_type_ids[index, row.second : length] = 1
    mask = np.arange(shape[1]) < np.array(lengths)[:, None]
    forbidden = None
    if features[0].passage is not None:
        forbidden = np.ones(shape, np.bool_)
        for index, feature in enumerate(features):
            forbidden[index, : lengths[index]] = feature.forbidden() > 0
    targets = _stack_targets(features, shape[1])
    num_labels = len(features)
    if targets is not None and features[0].word_positions is not None:
        num_labels = int(np.count_nonzero(targets != IGNORED_LABEL))
    return TaskBatch(
        input_ids=input_ids,
        attention_mask=None if bool(mask.all()) else mask,
        token_type_ids=token_type_ids,
        targets=targets,
        forbidden=forbidden,
        num_choices=len(features[0].rows),
        num_labels=num_labels,
        num_tokens=sum(lengths),
    )


def split_outputs(features: Sequence[Feature], outputs: Mapping[str, FloatArray]) -> list[Outputs]:
    """Cut batch outputs [B, ...] into one :data:`Outputs` per feature, without padding."""
    return [
        {
            name: values[index, : len(feature)] if name in PER_POSITION else values[index]
            for name, values in outputs.items()
        }
        for index, feature in enumerate(features)
    ]


def _stack_targets(features: Sequence[Feature], length: int) -> npt.NDArray[np.generic] | None:
    targets = [feature.target for feature in features if feature.target is not None]
    if len(targets) != len(features):
        return None
    if features[0].word_positions is None:
        return np.stack(targets)
    padded = np.full((len(targets), length), IGNORED_LABEL, np.int64)
    for index, target in enumerate(targets):
        padded[index, : len(target)] = target
    return padded
