"""A sentence encoder as teacher: its vectors from a file, fitted to the student, dealt to steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from litebert.common.errors import DataError
from litebert.common.progress import progress
from litebert.common.rows import count_rows, read_rows
from litebert.data.batches.example import Batch
from litebert.model.config import IGNORED_LABEL, ModelConfig
from litebert.model.encoder import Encoder, first_rows
from litebert.predict.batches import BatchOrder
from litebert.tasks.base import FloatArray, IntArray, Row
from litebert.tasks.forms.rows import pair_row, single_row
from litebert.text.tokenizer import Tokenizer

TO_ALIGN = 4096
"""Texts that tell how to turn a teacher's vectors."""
_LONGEST = 128
"""Tokens that a model in pretraining reads of a text."""
_AT_ONCE = 64
_FITTED_AT_ONCE = 1 << 14
"""vectors that are in memory twice"""


class TaughtText(NamedTuple):
    """What a file of a teacher's vectors says in a row."""

    text: str
    second: str | None
    """the other text, if the vector is that of two texts read together"""
    vector: FloatArray
    """float32 [D], of length 1"""


def stored_texts(path: Path) -> Iterator[TaughtText]:
    """Read texts and their vectors from a file, one row at a time; rows without one are left out.

    It has the columns text and embedding, as `litebert embed --out` writes them, and text_pair if
    there are vectors of two texts.
    """
    size = None
    with progress("reading the teacher's vectors", count_rows(path), "rows") as bar:
        for number, row in read_rows(path):
            bar.advance()
            if {"text", "embedding"} - row.keys():
                raise DataError(f"{path} needs the columns text and embedding: it has {list(row)}")
            if row["embedding"] is None:
                continue
            vector, second = _direction(row["embedding"]), row.get("text_pair")
            if vector is None:
                raise DataError(f"{path}:{number}: its embedding is not a vector of numbers")
            if size not in (None, len(vector)):
                raise DataError(f"{path} has vectors of different sizes: {[size, len(vector)]}")
            size = len(vector)
            yield TaughtText(str(row["text"]), None if second is None else str(second), vector)
    if size is None:
        raise DataError(f"{path} has no vectors; make them with `litebert embed`")


def stored_vectors(path: Path, wanted: Collection[str]) -> dict[str, FloatArray]:
    """Return the vectors of the wanted texts in a file, scaled to length 1."""
    known = {
        taught.text: taught.vector
        for taught in stored_texts(path)
        if taught.second is None and taught.text in wanted
    }
    if missing := set(wanted) - known.keys():
        raise DataError(
            f"{path} has no vector for {len(missing):,} of {len(wanted):,} texts to learn "
            f"from (first: {min(missing)[:60]!r}); make them with `litebert embed`"
        )
    return known


def _direction(value: object) -> FloatArray | None:
    """A list of numbers as a vector of length 1; None if it is not one or has no direction."""
    try:
        vector = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        return None
    length = float(np.linalg.norm(vector))
    return vector / length if vector.ndim == 1 and 0.0 < length < np.inf else None


def fitted(vectors: FloatArray, size: int) -> FloatArray:
    """Return vectors [N, D] of length 1 in as many numbers as the student has, float32 [N, size].

    Larger ones are turned into their principal directions (those of most length) and cut there,
    smaller ones get zeros: cosines stay, or nearly (decision 0017).
    """
    missing = size - vectors.shape[1]
    if missing >= 0:
        return np.pad(vectors, ((0, 0), (0, missing)))
    parts = (vectors[begin : begin + _FITTED_AT_ONCE].astype(np.float64)
             for begin in range(0, len(vectors), _FITTED_AT_ONCE))  # fmt: skip
    _, directions = np.linalg.eigh(sum(part.T @ part for part in parts))  # in rising order
    cut = vectors @ directions[:, : -size - 1 : -1].astype(np.float32)
    cut /= np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), 1e-12)
    return cut


def aligned(wanted: FloatArray, own: FloatArray) -> FloatArray:
    """Return the wanted vectors turned towards what the student says of the first texts already.

    A turn keeps every cosine between texts, and the student does not have to learn it: the best
    one (Procrustes) by how the vectors vary around their means; where they do not, none.
    """
    sample = wanted[: len(own)].astype(np.float64)
    product = (sample - sample.mean(0)).T @ (own - own.mean(0))
    left, _, right = np.linalg.svd(product + 1e-6 * np.linalg.norm(product) * np.eye(len(product)))
    return np.asarray(wanted @ (left @ right), np.float32)


class TaughtTexts:
    """Texts and pairs of texts with a teacher's vectors, in batches for pretraining.

    The state of [CLS] learns to be what the teacher says. A batch is a pure function of seed and
    number. Turn the vectors before the first step, with the weights that the run begins with
    (:meth:`align`).
    """

    def __init__(
        self, path: Path, tokenizer: Tokenizer, shape: ModelConfig, batch_size: int, seed: int
    ) -> None:
        longest = min(_LONGEST, shape.max_positions)
        vectors = []
        self.rows: list[Row] = []
        for text, second, vector in stored_texts(path):
            vectors.append(vector)
            ids = tokenizer.encode(text)
            self.rows.append(
                single_row(ids, tokenizer, longest)
                if second is None
                else pair_row(ids, tokenizer.encode(second), tokenizer, longest)
            )
        self.vectors = fitted(np.stack(vectors), shape.hidden_size)
        self._pad_id = tokenizer.pad_id
        self._order = BatchOrder([len(row) for row in self.rows], batch_size, seed, "taught texts")

    @torch.no_grad()
    def align(self, encoder: Encoder) -> None:
        """Turn the vectors to where an encoder has those of its [CLS], without its dropout."""
        device, is_training = next(encoder.parameters()).device, encoder.training
        encoder.eval()
        said = []
        for begin in range(0, min(TO_ALIGN, len(self.rows)), _AT_ONCE):
            members = np.arange(begin, min(begin + _AT_ONCE, len(self.rows)))
            arrays = self._padded(members)
            inputs, segments, lengths = (torch.from_numpy(array).to(device) for array in arrays)
            mask = torch.arange(inputs.shape[1], device=device) < lengths[:, None]
            out = encoder(inputs, mask, segments, rows_R=first_rows(inputs)).sequence_BSH
            said.append(nn.functional.normalize(out.float(), dim=-1).cpu().numpy())
        encoder.train(is_training)
        self.vectors = aligned(self.vectors, np.concatenate(said))

    def batch(self, number: int) -> Batch:
        """Return the batch of this number, without masks and labels."""
        members = self._order.batch(number)
        ids, segments, lengths = self._padded(members)
        none = np.zeros(0, np.int64)
        return Batch(
            input_ids=ids,
            token_type_ids=segments,
            lengths=lengths,
            masked_positions=none,
            masked_labels=none,
            sentence_labels=np.full(len(members), IGNORED_LABEL, np.int64),
            addresses=np.stack((np.zeros_like(members), np.zeros_like(members), members), axis=1),
            position=number,
            vectors=self.vectors[members],
        )

    def _padded(self, members: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Ids and segments of some texts, padded to the longest, and their lengths."""
        rows = [self.rows[int(member)] for member in members]
        lengths = np.array([len(row) for row in rows])
        ids = np.full((len(rows), int(lengths.max())), self._pad_id, np.int64)
        segments = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row.ids
            segments[place, row.second : len(row)] = 1
        return ids, segments, lengths
