"""A sentence encoder as teacher: its vectors from a file, fitted to the student, dealt to steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

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
from litebert.predict.inputs import pad
from litebert.tasks.base import Feature, FloatArray, IntArray, Row
from litebert.tasks.forms.rows import pair_row, single_row
from litebert.text.tokenizer import Tokenizer
from litebert.train.pretraining.objective import inputs_of

TO_ALIGN = 4096  # texts that tell how to turn a teacher's vectors
_LONGEST = 128  # tokens that a model in pretraining reads of a text
_AT_ONCE = 64
_FITTED_AT_ONCE = 1 << 14


def stored_texts(path: Path) -> Iterator[tuple[str, str | None, FloatArray]]:
    """Read texts and their vectors of length 1 from a file; rows without a vector are left out.

    It has the columns text and embedding, as `litebert embed --out` writes them, and text_pair where a vector is that
    of two texts read together.
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
            yield str(row["text"]), None if second is None else str(second), vector
    if size is None:
        raise DataError(f"{path} has no vectors; make them with `litebert embed`")


def stored_vectors(path: Path, wanted: Collection[str]) -> dict[str, FloatArray]:
    """Return the vectors of the wanted texts in a file, scaled to length 1."""
    known = {text: vector for text, second, vector in stored_texts(path) if second is None and text in wanted}
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

    Larger ones are turned into their principal directions (those of most length) and cut there, smaller ones get zeros:
    cosines stay, or nearly (decision 0017).
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

    A turn keeps every cosine between texts, and the student does not have to learn it: the best one (Procrustes) by how
    the vectors vary around their means; where they do not, none.
    """
    sample = wanted[: len(own)].astype(np.float64)
    product = (sample - sample.mean(0)).T @ (own - own.mean(0))
    left, _, right = np.linalg.svd(product + 1e-6 * np.linalg.norm(product) * np.eye(len(product)))
    return np.asarray(wanted @ (left @ right), np.float32)


class TaughtTexts:
    """Texts and pairs of texts with a teacher's vectors, in batches for pretraining.

    The state of [CLS] learns to be what the teacher says. A batch is a pure function of seed and number. Turn the
    vectors before the first step, with the weights that the run begins with (:meth:`align`).
    """

    def __init__(self, path: Path, tokenizer: Tokenizer, shape: ModelConfig, batch_size: int, seed: int) -> None:
        longest = min(_LONGEST, shape.max_positions)
        vectors = []
        self._rows: list[Row] = []
        for text, second, vector in stored_texts(path):
            vectors.append(vector)
            ids = tokenizer.encode(text)
            self._rows.append(
                single_row(ids, tokenizer, longest)
                if second is None
                else pair_row(ids, tokenizer.encode(second), tokenizer, longest)
            )
        self.vectors = fitted(np.stack(vectors), shape.hidden_size)
        self._pad_id = tokenizer.pad_id
        self._order = BatchOrder([len(row) for row in self._rows], batch_size, seed, "taught texts")

    @torch.no_grad()
    def align(self, encoder: Encoder) -> None:
        """Turn the vectors to where an encoder has those of its [CLS], without its dropout."""
        device, is_training = next(encoder.parameters()).device, encoder.training
        encoder.eval()
        said, count = [], min(TO_ALIGN, len(self._rows))
        for begin in range(0, count, _AT_ONCE):
            batch = self._batch(np.arange(begin, min(begin + _AT_ONCE, count)), 0)
            inputs = inputs_of(batch, device)
            out = encoder(*inputs, rows_R=first_rows(inputs[0])).sequence_BSH
            said.append(nn.functional.normalize(out.float(), dim=-1).cpu().numpy())
        encoder.train(is_training)
        self.vectors = aligned(self.vectors, np.concatenate(said))

    def batch(self, number: int) -> Batch:
        """Return the batch of this number, without masks and labels."""
        return self._batch(self._order.batch(number), number)

    def _batch(self, members: IntArray, number: int) -> Batch:
        padded = pad([Feature(0, (self._rows[member],)) for member in members], self._pad_id)
        none = np.zeros(0, np.int64)
        return Batch(
            input_ids=padded.input_ids,
            token_type_ids=padded.token_type_ids,
            lengths=self._order.lengths[members],
            masked_positions=none,
            masked_labels=none,
            sentence_labels=np.full(len(members), IGNORED_LABEL, np.int64),
            addresses=np.pad(members[:, None], ((0, 0), (2, 0))),
            position=number,
            vectors=self.vectors[members],
        )
