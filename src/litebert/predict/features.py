"""Model inputs as lists of ids, padded into arrays for one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]

Row = Mapping[str, FloatArray]
"""What the model said about one feature: output name -> array without the batch dimension."""


@dataclass(frozen=True)
class Feature:
    """One model input before padding.

    Args:
        input_ids: ids with ``[CLS]`` and ``[SEP]``.
        token_type_ids: 0 for the first segment, 1 for the second; as long as ``input_ids``.
        masked: positions whose word the masked-language-model head shall predict.
        forbidden: 1 where an answer may not start or end (the paper's SQuAD 2.0 head), or empty.

    Example:
        >>> Feature((2, 17, 4, 3), (0, 0, 0, 0), masked=(2,))
    """

    input_ids: Sequence[int]
    token_type_ids: Sequence[int]
    masked: Sequence[int] = ()
    forbidden: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True)
class ModelInputs:
    """A padded batch.

    Args:
        input_ids: int64 [B, S].
        attention_mask: int64 [B, S], 1 for real tokens; None if nothing is padded.
        token_type_ids: int64 [B, S].
        masked_positions: int64 [M], index into the flattened B * S.
        forbidden: float32 [B, S], 1 where no answer may be (padding too), or None.
        depth: how many repeats of the shared block to run; None for all.
    """

    input_ids: IntArray
    attention_mask: IntArray | None
    token_type_ids: IntArray
    masked_positions: IntArray
    forbidden: FloatArray | None = None
    depth: int | None = None

    def full_mask(self) -> IntArray:
        """Return the attention mask as an array [B, S], also when nothing is padded."""
        if self.attention_mask is not None:
            return self.attention_mask
        return np.ones_like(self.input_ids)


def segments(first: Sequence[int], second: Sequence[int] | None, cls: int, sep: int) -> Feature:
    """Return ``[CLS] first [SEP]`` or ``[CLS] first [SEP] second [SEP]`` as a feature."""
    ids = [cls, *first, sep]
    types = [0] * len(ids)
    if second is not None:
        ids += [*second, sep]
        types += [1] * (len(second) + 1)
    return Feature(ids, types)


def pad(features: Sequence[Feature], pad_id: int, depth: int | None = None) -> ModelInputs:
    """Pad features to the longest of them.

    Returns:
        Arrays of shape [len(features), longest]; ``attention_mask`` is None when all features are
        equally long, so that a backend can take its faster unmasked way.
    """
    lengths = [len(feature) for feature in features]
    shape = (len(features), max(lengths))
    input_ids = np.full(shape, pad_id, np.int64)
    token_type_ids = np.zeros(shape, np.int64)
    attention_mask = np.zeros(shape, np.int64)
    restricted = any(feature.forbidden for feature in features)
    forbidden = np.ones(shape, np.float32) if restricted else None
    masked: list[int] = []
    for row, (feature, length) in enumerate(zip(features, lengths, strict=True)):
        input_ids[row, :length] = feature.input_ids
        token_type_ids[row, :length] = feature.token_type_ids
        attention_mask[row, :length] = 1
        if forbidden is not None:
            forbidden[row, :length] = feature.forbidden
        masked += [row * shape[1] + position for position in feature.masked]
    return ModelInputs(
        input_ids=input_ids,
        attention_mask=None if min(lengths) == shape[1] else attention_mask,
        token_type_ids=token_type_ids,
        masked_positions=np.asarray(masked, np.int64),
        forbidden=forbidden,
        depth=depth,
    )


PER_TOKEN = frozenset(
    {"last_hidden_state", "hidden_states", "start_logits", "end_logits", "token_logits"}
)
"""Outputs with a sequence dimension, to be cut to each feature's length."""


def split(features: Sequence[Feature], outputs: Mapping[str, FloatArray]) -> list[Row]:
    """Cut batch outputs into one row per feature, without padding.

    ``masked_logits`` [M, V] is cut by the number of masks of each feature; outputs of
    :data:`PER_TOKEN` [B, S, ...] lose the padded positions; the others [B, ...] are indexed.
    """
    rows: list[Row] = []
    start = 0
    for index, feature in enumerate(features):
        stop = start + len(feature.masked)
        row = {}
        for name, values in outputs.items():
            if name == "masked_logits":
                row[name] = values[start:stop]
            elif name in PER_TOKEN:
                row[name] = values[index, : len(feature)]
            else:
                row[name] = values[index]
        rows.append(row)
        start = stop
    return rows
