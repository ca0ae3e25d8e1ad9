"""Word vectors from counts, as the start of a word table: which pieces stand near which.

A freshly drawn word table says nothing about words, so the first thing a training learns is which
words are alike. Counts say so at once: pointwise mutual information of pieces that stand near each
other, factorised (Levy and Goldberg 2014, "Neural Word Embedding as Implicit Matrix
Factorization"). Seconds of work replace the first part of a small training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from litebert.data.corpus.shards import ShardSet

WINDOW = 2
"""Tokens to each side that count, the second half as much as the first."""
MOST_CONTEXTS = 2048
"""Columns of the counts on each side: the most frequent pieces."""
MOST_TOKENS = 10_000_000
"""Tokens that are counted; more change little."""
CONTEXT_POWER = 0.75
"""Frequent contexts weigh less than their share."""
ROUNDS = 4
"""Of the power iteration, enough for spectra as flat as those of words."""
_COUNTED_AT_ONCE = 2_000_000
_ROWS_AT_ONCE = 8192


def start_from_contexts(
    words: nn.Embedding, corpora: Sequence[ShardSet], deviation: float, generator: torch.Generator
) -> None:
    """Fill a word table [V, E] from the training text; pieces that do not occur stay as drawn."""
    counts = context_counts(corpora, words.num_embeddings)
    vectors, is_known = context_vectors(counts, words.embedding_dim, generator)
    with torch.no_grad():
        words.weight[is_known] = deviation * vectors[is_known]


def context_counts(corpora: Sequence[ShardSet], vocab_size: int) -> Tensor:
    """How often each piece stands before and after each frequent piece, [V, 2 x contexts]."""
    frequencies = np.sum([shards.unigram_counts() for shards in corpora], axis=0)
    contexts = np.argsort(-frequencies, kind="stable")[:MOST_CONTEXTS]
    column = np.full(vocab_size, -1)
    column[contexts] = np.arange(len(contexts))
    counts = np.zeros((vocab_size, 2 * len(contexts)), np.float32)
    after, before = np.split(counts, 2, axis=1)
    for tokens in _excerpts(corpora):
        for distance in range(1, min(WINDOW + 1, len(tokens))):
            earlier, later = tokens[:-distance], tokens[distance:]
            _add(after, earlier, column[later], 1 / distance)
            _add(before, later, column[earlier], 1 / distance)
    return torch.from_numpy(counts)


def context_vectors(
    counts: Tensor, width: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Vectors [V, width] of standard deviation 1 and which pieces have one, from [V, contexts].

    The counts are used up: beside a large vocabulary there is no room for another such table.
    The directions are those of the largest singular values, all made equally wide: what few words
    share would drown in what all do. Lengths are halfway to equal.
    """
    shares = counts.sum(0) ** CONTEXT_POWER
    information = counts.div_(counts.sum(1, keepdim=True)).div_(shares / shares.sum()).log_()
    information.nan_to_num_(0.0, 0.0, 0.0).clamp_(min=0.0)
    is_known = information.any(1)
    vectors = torch.zeros(len(information), width)
    if not is_known.any():
        return vectors, is_known
    rank = min(width, *information.shape)
    basis = torch.randn(information.shape[1], rank, generator=generator)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(information.T @ (information @ basis))[0]
    left = torch.linalg.svd(information @ basis, full_matrices=False)[0]
    known = left[is_known]
    known = (known - known.mean(0)) / known.std(0, correction=0).clamp(min=1e-6)
    known /= known.norm(dim=1, keepdim=True).clamp(min=1e-6).sqrt()
    known /= known.std(correction=0).clamp(min=1e-6)
    vectors[is_known] = nn.functional.pad(known, (0, width - rank))
    return vectors, is_known


def _excerpts(corpora: Sequence[ShardSet]) -> Iterator[NDArray[np.int64]]:
    """Runs of tokens from all shards, ``MOST_TOKENS`` in all; documents follow each other."""
    share = min(1.0, MOST_TOKENS / max(1, sum(shards.num_tokens for shards in corpora)))
    for shard in (shard for shards in corpora for shard in shards.shards):
        tokens = shard.tokens[: round(share * shard.num_tokens)]
        for start in range(0, len(tokens), _COUNTED_AT_ONCE):
            yield tokens[start : start + _COUNTED_AT_ONCE].astype(np.int64)


def _add(
    counts: NDArray[np.float32], rows: NDArray[np.int64], columns: NDArray[np.int64], weight: float
) -> None:
    """Add ``weight`` at each pair with a column; a block of rows at a time, to bound the memory."""
    for first in range(0, len(counts), _ROWS_AT_ONCE):
        block = counts[first : first + _ROWS_AT_ONCE]
        is_here = (columns >= 0) & (rows >= first) & (rows < first + len(block))
        keys = (rows[is_here] - first) * block.shape[1] + columns[is_here]
        block += np.float32(weight) * np.bincount(keys, minlength=block.size).reshape(block.shape)
