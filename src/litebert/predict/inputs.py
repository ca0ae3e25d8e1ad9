"""Features padded into one batch of numpy arrays, and a batch's outputs cut apart again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

import numpy as np
import numpy.typing as npt

from litebert.model.config import IGNORED_LABEL
from litebert.model.head_table import OUTPUTS
from litebert.tasks.base import Feature, FloatArray, IntArray, Outputs

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PaddedBatch:
    """A padded batch; R rows is B features times the number of choices (usually 1)."""

    input_ids: IntArray  # [R, S]
    attention_mask: BoolArray | None  # [R, S], True for real tokens; None if nothing is padded
    token_type_ids: IntArray  # [R, S]
    masked_positions: IntArray  # [M], where a word is asked for: index into the flattened R * S
    forbidden: BoolArray | None  # [R, S], where no answer may be, as in padding; None: no spans
    targets: npt.NDArray[np.generic] | None  # of the features, stacked [B, ...]; None: no gold
    teacher: FloatArray | None  # what a teacher says about them, [B, ...]
    num_choices: int  # rows per feature
    num_labels: int  # what a mean loss is over: features, or tagged words
    num_tokens: int  # without padding


def pad(features: Sequence[Feature], pad_id: int) -> PaddedBatch:
    """Pad features, all of equally many rows, to the longest of them."""
    rows = [row for feature in features for row in feature.rows]
    num_choices = len(features[0].rows)
    lengths = [len(row) for row in rows]
    shape = (len(rows), max(lengths))
    input_ids = np.full(shape, pad_id, np.int64)
    token_type_ids = np.zeros(shape, np.int64)
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        input_ids[index, :length] = row.ids
        token_type_ids[index, row.second : length] = 1
    mask = np.arange(shape[1]) < np.array(lengths)[:, None]
    forbidden = None
    if any(feature.passage is not None for feature in features):
        forbidden = ~mask
        for index, feature in enumerate(features):
            if feature.passage is not None:
                forbidden[index, : lengths[index]] = feature.forbidden()
    size = num_choices * shape[1]
    masked = [index * size + position for index, feature in enumerate(features) for position in feature.masked]
    targets = _stack_targets(features, shape[1])
    taught = [feature.teacher for feature in features if feature.teacher is not None]
    num_labels = len(features)
    if targets is not None and features[0].word_positions is not None:
        num_labels = int(np.count_nonzero(targets != IGNORED_LABEL))
    return PaddedBatch(
        input_ids=input_ids,
        attention_mask=None if bool(mask.all()) else mask,  # without one a model is faster
        token_type_ids=token_type_ids,
        masked_positions=np.array(masked, np.int64),
        forbidden=forbidden,
        targets=targets,
        teacher=np.stack(taught) if taught else None,
        num_choices=num_choices,
        num_labels=num_labels,
        num_tokens=sum(lengths),
    )


def split(features: Sequence[Feature], outputs: Mapping[str, FloatArray]) -> list[Outputs]:
    """Cut the outputs of a batch into one :data:`Outputs` per feature of one row, without padding.

    The table of heads says which have a row per mask [M, ...] or token [B, S, ...]; the others [B, ...] are indexed.
    """
    found: list[Outputs] = []
    ends = accumulate(len(feature.masked) for feature in features)
    for index, (feature, end) in enumerate(zip(features, ends, strict=True)):
        masks, tokens = slice(end - len(feature.masked), end), (index, slice(len(feature)))
        places: dict[str, int | slice | tuple[int, slice]] = {"feature": index, "token": tokens, "mask": masks}
        found.append({name: values[places[OUTPUTS[name].per]] for name, values in outputs.items()})
    return found


def single_rows(features: Sequence[Feature]) -> list[Feature]:
    """Return every row as a feature of its own: the choices of one may be in different batches."""
    return [
        feature if len(feature.rows) == 1 else replace(feature, rows=(row,))
        for feature in features
        for row in feature.rows
    ]


def join_rows(features: Sequence[Feature], said: Sequence[Outputs]) -> list[Outputs]:
    """Return one :data:`Outputs` per feature from those of its single rows: scores side by side."""
    left = iter(said)
    joined: list[Outputs] = []
    for feature in features:
        own = list(islice(left, len(feature.rows)))
        values = {name: [outputs[name] for outputs in own] for name in own[0]}
        joined.append({n: np.concatenate(v) if len(v) > 1 else v[0] for n, v in values.items()})
    return joined


def _stack_targets(features: Sequence[Feature], length: int) -> npt.NDArray[np.generic] | None:
    targets = [feature.target for feature in features if feature.target is not None]
    if len(targets) != len(features):
        return None
    if features[0].word_positions is None:
        return np.stack(targets)
    padded = np.full((len(targets), length), IGNORED_LABEL, targets[0].dtype)
    for index, target in enumerate(targets):
        padded[index, : len(target)] = target
    return padded
