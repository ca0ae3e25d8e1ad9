"""What a fine-tuning step trains: its examples, cut into batches, and the exit it draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from litebert.common.errors import ConfigError
from litebert.common.rng import rng
from litebert.model.config import ModelConfig
from litebert.model.sharing import plan_of
from litebert.predict.batches import micro_batches, pack
from litebert.predict.inputs import PaddedBatch, pad, single_rows
from litebert.tasks.base import Feature, FloatArray, IntArray

_EXITS = 4


@dataclass(frozen=True)
class JointBatch:
    """Features whose loss is over all of them together, in padded batches of like length."""

    padded: list[PaddedBatch]
    places: IntArray  # [B * T], where each row stands among those of all padded batches
    targets: npt.NDArray[np.generic]
    teacher: FloatArray | None
    num_texts: int  # T, rows per feature
    num_labels: int
    num_tokens: int


Batch = PaddedBatch | JointBatch


def join(features: Sequence[Feature], pad_id: int, max_tokens: int) -> JointBatch:
    """Make one batch of features with equally many texts each."""
    rows = single_rows(features)
    cut = pack([len(row) for row in rows], max_tokens)
    targets = np.stack([np.asarray(feature.target) for feature in features])
    taught = [feature.teacher for feature in features if feature.teacher is not None]
    return JointBatch(
        [pad([rows[index] for index in part], pad_id) for part in cut],
        np.argsort(np.concatenate(cut)),
        targets,
        np.stack(taught) if taught else None,
        len(features[0].rows),
        len(features),
        sum(len(row) for row in rows),
    )


def share_of(
    members: Sequence[Feature], pad_id: int, max_tokens: int, rank: int, world_size: int, is_joint: bool = False
) -> Sequence[Batch]:
    """A process's part of a step, which is cut and padded as a single process does it.

    Whole micro-batches go round; of those left over each process takes some rows. ``is_joint``: it takes one batch.
    """
    if is_joint:
        taken = members[rank::world_size]
        return [join(taken, pad_id, max_tokens)] if taken else []
    parts = [[members[i] for i in part] for part in micro_batches(members, max_tokens)]
    num_whole = len(parts) - len(parts) % world_size
    share = [pad(part, pad_id) for part in parts[rank:num_whole:world_size]]
    for part in parts[num_whole:]:
        if own := part[rank::world_size]:
            share.append(_rows_of(pad(part, pad_id), pad(own, pad_id), np.arange(rank, len(part), world_size)))
    return share


def _rows_of(batch: PaddedBatch, counts: PaddedBatch, chosen: IntArray) -> PaddedBatch:
    """Some features of a batch, padded as it is, for a plain span loss is over padding too; ``counts``: they alone."""
    rows = (chosen[:, None] * batch.num_choices + np.arange(batch.num_choices)).ravel()
    return replace(
        counts,
        input_ids=batch.input_ids[rows],
        attention_mask=None if batch.attention_mask is None else batch.attention_mask[rows],
        token_type_ids=batch.token_type_ids[rows],
        targets=None if batch.targets is None else batch.targets[chosen],
        forbidden=None if batch.forbidden is None else batch.forbidden[rows],
    )


def exit_depths(config: ModelConfig) -> tuple[int, ...]:
    """Return a quarter, half, three quarters and all of the layers, rounded up."""
    if not plan_of(config).repeats_one_layer:
        raise ConfigError(
            f"train_exits needs a model whose layers share all parameters, this one shares "
            f"'{config.sharing}': leave it out."
        )
    if config.num_layers < 2:
        raise ConfigError("train_exits needs a model of 2 layers or more: leave it out.")
    return tuple(sorted({-(-config.num_layers * part // _EXITS) for part in range(1, _EXITS + 1)}))


def drawn_exit(depths: tuple[int, ...], seed: int, step: int) -> int | None:
    """Return the early exit that a step trains beside the full depth; None without exits.

    One a step, each as often as the others: the mean over steps is that of training all, for half
    a forward pass more instead of one for each.
    """
    if len(depths) < 2:
        return None
    return depths[int(rng(seed, "exit depth", step).integers(len(depths) - 1))]
