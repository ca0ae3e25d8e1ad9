"""The start of a word table: counts of what stands near what, and vectors of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity

from litebert.train.pretraining import initial
from litebert.train.pretraining.config import InitialWeights
from litebert.train.pretraining.engine import pretrain
from litebert.train.pretraining.initial import WINDOW, context_counts, context_vectors, start_from_contexts
from small_run import assert_bitwise_equal, small_config, weights
from small_shards import write_documents

VOCABULARY = 40


def random_documents(count: int) -> list[list[list[int]]]:
    generator = np.random.default_rng(0)
    return [[generator.integers(5, 30, 12).tolist()] for _ in range(count)]


def counted_one_by_one(tokens: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a text, [V, V]: pieces and what stands after them, and before them."""
    counts = np.zeros((VOCABULARY, VOCABULARY))
    for i, piece in enumerate(tokens):
        for j, later in enumerate(tokens[i + 1 : i + 1 + WINDOW]):
            counts[piece, later] += 1 / (j + 1)
    return counts, counts.T


def test_counts_are_those_of_all_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial, "_ROWS_AT_ONCE", 7)
    documents = random_documents(20)
    shards = write_documents(tmp_path, documents, VOCABULARY)
    counts = context_counts([shards], VOCABULARY).numpy()
    tokens = [token for document in documents for sentence in document for token in sentence]
    columns = np.argsort(-np.bincount(tokens, minlength=VOCABULARY), kind="stable")
    expected = [side[:, columns] for side in counted_one_by_one(tokens)]
    np.testing.assert_allclose(counts, np.concatenate(expected, 1), rtol=1e-6)


def test_only_a_share_of_every_shard_of_a_large_corpus_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial, "MOST_TOKENS", 1200)
    shards = write_documents(tmp_path, random_documents(400), VOCABULARY, shard_tokens=600)
    assert len(shards.shards) > 2
    excerpts = list(initial._excerpts([shards]))
    assert len(excerpts) == len(shards.shards)
    assert sum(map(len, excerpts)) == pytest.approx(1200, rel=0.02)


def test_words_with_the_same_neighbours_begin_alike(tmp_path: Path) -> None:
    # Pieces 10 to 14 stand between pieces of one kind, 15 to 19 between those of another.
    generator = np.random.default_rng(0)
    documents = []
    for _ in range(600):
        kind = int(generator.integers(2))
        around = generator.integers(20 + 10 * kind, 30 + 10 * kind, (4, 2))
        word = generator.integers(10 + 5 * kind, 15 + 5 * kind, 4)
        documents.append([np.column_stack([around, word]).ravel().tolist()])
    table = nn.Embedding(VOCABULARY, 8)
    drawn = table.weight.detach().clone()
    shards = write_documents(tmp_path, documents, VOCABULARY)
    start_from_contexts(table, [shards], 0.02, torch.Generator().manual_seed(0))
    words = table.weight.detach()
    assert torch.equal(words[:10], drawn[:10]), "pieces that do not occur"
    assert float(words[10:].std()) == pytest.approx(0.02, rel=0.05)
    same = cosine_similarity(words[10:15, None], words[None, 10:15], dim=-1).mean()
    other = cosine_similarity(words[10:15, None], words[None, 15:20], dim=-1).mean()
    assert same > 0.4 > 0.0 > other


def test_vectors_are_the_same_for_the_same_seed_and_may_be_wider_than_the_counts() -> None:
    counts = torch.rand(VOCABULARY, 6, generator=torch.Generator().manual_seed(1))
    counts[3] = 0
    first, is_known = context_vectors(counts.clone(), 16, torch.Generator().manual_seed(0))
    again, _ = context_vectors(counts.clone(), 16, torch.Generator().manual_seed(0))
    assert torch.equal(first, again)
    assert first.shape == (VOCABULARY, 16)
    assert first.isfinite().all()
    assert not is_known[3]


def test_a_run_with_such_a_start_is_the_same_again(tiny_shards_dir: Path, tmp_path: Path) -> None:
    plain = small_config(tiny_shards_dir, tmp_path / "plain", steps=2)
    started = replace(plain, initial=InitialWeights(words="contexts"))
    for name in ("first", "again"):
        pretrain(replace(started, out=tmp_path / name), quiet=True)
    pretrain(plain, quiet=True)
    assert_bitwise_equal(weights(tmp_path / "first"), weights(tmp_path / "again"))
    table = "albert.embeddings.word_embeddings.weight"
    assert not torch.equal(weights(tmp_path / "first")[table], weights(tmp_path / "plain")[table])


@pytest.mark.parametrize("pairs", [0, 1, 2])
def test_a_text_of_hardly_any_words_is_no_trouble(pairs: int) -> None:
    counts = torch.zeros(VOCABULARY, 6)
    counts[range(pairs), range(pairs)] = 3.0
    vectors, is_known = context_vectors(counts, 4, torch.Generator().manual_seed(0))
    assert vectors.isfinite().all()
    assert is_known.sum() == (2 if pairs == 2 else 0)
