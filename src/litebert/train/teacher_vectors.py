"""A sentence encoder as teacher: its vectors from a file, fitted to the student, dealt to steps."""

from __future__ import annotations

from collections.abc import Collection
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
from litebert.tasks.base import FloatArray, IntArray
from litebert.text.tokenizer import Tokenizer

TO_ALIGN = 4096
"""Texts that tell how to turn a teacher's vectors."""
_LONGEST = 128
"""Tokens that a model in pretraining reads of a text."""
_AT_ONCE = 64


def stored_vectors(path: Path, wanted: Collection[str] | None = None) -> dict[str, FloatArray]:
    """The vectors of texts in a file, all or the wanted ones, scaled to length 1.

    The file has the columns text and embedding, as `litebert embed --out` writes them.
    """
    known: dict[str, FloatArray] = {}
    with progress("reading the teacher's vectors", count_rows(path), "rows") as bar:
        for number, row in read_rows(path):
            bar.advance()
            if {"text", "embedding"} - row.keys():
                raise DataError(f"{path} needs the columns text and embedding: it has {list(row)}")
            if (wanted is None or row["text"] in wanted) and row["embedding"] is not None:
                vector = _direction(row["embedding"])
                if vector is None:
                    raise DataError(f"{path}:{number}: its embedding is not a vector of numbers")
                known[str(row["text"])] = vector
    if missing := set(wanted or ()) - known.keys():
        raise DataError(
            f"{path} has no vector for {len(missing):,} of {len(wanted or ()):,} texts to learn "
            f"from (first: {min(missing)[:60]!r}); make them with `litebert embed`"
        )
    if not known:
        raise DataError(f"{path} has no vectors; make them with `litebert embed`")
    if len(sizes := {len(vector) for vector in known.values()}) > 1:
        raise DataError(f"{path} has vectors of different sizes: {sorted(sizes)[:3]}")
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
    wide = vectors.astype(np.float64)
    _, directions = np.linalg.eigh(wide.T @ wide)  # in rising order
    cut = wide @ directions[:, : -size - 1 : -1]
    cut /= np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), 1e-12)
    return np.asarray(cut, np.float32)


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
    """Texts with a teacher's vectors, in batches for pretraining: [CLS] learns to say the same.

    A batch is a pure function of seed and number. Turn the vectors before the first step, with
    the weights that the run begins with (:meth:`align`).
    """

    def __init__(
        self, path: Path, tokenizer: Tokenizer, shape: ModelConfig, batch_size: int, seed: int
    ) -> None:
        known = stored_vectors(path)
        self.vectors = fitted(np.stack(list(known.values())), shape.hidden_size)
        most = min(_LONGEST, shape.max_positions) - 2
        self.ids = [
            np.array([tokenizer.cls_id, *tokenizer.encode(text)[:most], tokenizer.sep_id], np.int64)
            for text in known
        ]
        self._pad_id = tokenizer.pad_id
        self._order = BatchOrder([len(ids) for ids in self.ids], batch_size, seed, "taught texts")

    @torch.no_grad()
    def align(self, encoder: Encoder) -> None:
        """Turn the vectors to where an encoder has those of its [CLS], without its dropout."""
        device, is_training = next(encoder.parameters()).device, encoder.training
        encoder.eval()
        said = []
        for begin in range(0, min(TO_ALIGN, len(self.ids)), _AT_ONCE):
            ids, lengths = self._padded(np.arange(begin, min(begin + _AT_ONCE, len(self.ids))))
            inputs = torch.from_numpy(ids).to(device)
            mask = torch.arange(ids.shape[1]) < torch.from_numpy(lengths)[:, None]
            states = encoder(inputs, mask.to(device), rows_R=first_rows(inputs)).sequence_BSH
            said.append(nn.functional.normalize(states.float(), dim=-1).cpu().numpy())
        encoder.train(is_training)
        self.vectors = aligned(self.vectors, np.concatenate(said))

    def batch(self, number: int) -> Batch:
        """Return the batch of this number, without masks and labels."""
        members = self._order.batch(number)
        ids, lengths = self._padded(members)
        none = np.zeros(0, np.int64)
        return Batch(
            input_ids=ids,
            token_type_ids=np.zeros_like(ids),
            lengths=lengths,
            masked_positions=none,
            masked_labels=none,
            sentence_labels=np.full(len(members), IGNORED_LABEL, np.int64),
            addresses=np.stack((np.zeros_like(members), np.zeros_like(members), members), axis=1),
            position=number,
            vectors=self.vectors[members],
        )

    def _padded(self, members: IntArray) -> tuple[IntArray, IntArray]:
        """The ids of some texts, padded to the longest, and their lengths."""
        rows = [self.ids[int(member)] for member in members]
        lengths = np.array([len(row) for row in rows])
        ids = np.full((len(rows), int(lengths.max())), self._pad_id, np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        return ids, lengths
