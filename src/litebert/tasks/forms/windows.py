"""Sliding windows over a passage, and the pieces of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from litebert.tasks.base import IntArray


@dataclass(frozen=True)
class PiecePassage:
    """A passage as pieces with the raw characters of each, int64 [n].

    ``ends`` are one past the last; a piece that stands for a space alone ends where it starts.
    """

    ids: IntArray
    starts: IntArray
    ends: IntArray


def align(passage: PiecePassage, start: int, end: int) -> tuple[int, int] | None:
    """Return the first and the last piece that hold characters of ``[start, end)``.

    An answer that begins or ends inside a piece is widened to whole pieces. None if no
    piece holds any of its characters (all of them vanish in normalisation).
    """
    touching = np.flatnonzero((passage.starts < end) & (passage.ends > start))
    if len(touching) == 0:
        return None
    return int(touching[0]), int(touching[-1])


def window_starts(num_pieces: int, size: int, stride: int) -> list[int]:
    """Return the first piece of each window; the last window reaches the end.

    >>> window_starts(10, size=6, stride=3)
    [0, 3, 6]
    >>> window_starts(6, size=6, stride=3)
    [0]
    """
    starts = [0]
    while starts[-1] + size < num_pieces:
        starts.append(starts[-1] + min(size, stride))
    return starts


def max_context(starts: Sequence[int], size: int, num_pieces: int) -> list[npt.NDArray[np.bool_]]:
    """Return for each window which of its pieces no other window shows with more context.

    The context of a piece is the smaller of what lies to its left and to its right in the window,
    plus a hundredth of the window's length (BERT's rule); the first window wins a tie.
    """
    best = np.full(num_pieces, -1.0)
    owner = np.zeros(num_pieces, np.int64)
    for index, start in enumerate(starts):
        length = min(size, num_pieces - start)
        offsets = np.arange(length)
        context = np.minimum(offsets, length - 1 - offsets) + 0.01 * length
        part = slice(start, start + length)
        better = context > best[part]
        best[part] = np.where(better, context, best[part])
        owner[part] = np.where(better, index, owner[part])
    return [owner[start : start + size] == index for index, start in enumerate(starts)]
