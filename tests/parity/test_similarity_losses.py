"""Losses over vectors equal those of sentence-transformers; its trained folders load there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from litebert.interop.hf import save_model
from litebert.interop.pooling import VectorRule
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.similarity import SentenceEncoder, cosent_loss, in_batch_loss
from litebert.predict.predictor import Predictor

# Its import alone takes seconds.
pytestmark = pytest.mark.slow
SHAPE = ModelConfig(vocab_size=1000, embedding_size=16, hidden_size=32, num_layers=2, num_heads=2)


@pytest.fixture(scope="module")
def losses():  # type: ignore[no-untyped-def]
    return pytest.importorskip("sentence_transformers.sentence_transformer.losses")


def vectors(num_texts: int, size: int = 9) -> torch.Tensor:
    drawn = torch.randn(size, num_texts, 32, generator=torch.Generator().manual_seed(num_texts))
    return torch.nn.functional.normalize(drawn, dim=-1)


def numbers(num_texts: int, size: int = 9) -> torch.Tensor:
    return torch.arange(size * num_texts).view(size, num_texts)


def columns(found: torch.Tensor) -> list[torch.Tensor]:
    return list(found.unbind(1))


@pytest.mark.parametrize("num_texts", [2, 3, 4])
@pytest.mark.parametrize("temperature", [0.05, 0.2])
def test_in_batch_negatives(losses, num_texts: int, temperature: float) -> None:  # type: ignore[no-untyped-def]
    found = vectors(num_texts)
    theirs = losses.MultipleNegativesRankingLoss(None, scale=1 / temperature)
    ours = in_batch_loss(found, numbers(num_texts), temperature, symmetric=False)
    wanted = theirs.compute_loss_from_embeddings(columns(found), None)
    assert ours.item() == pytest.approx(wanted.item(), abs=1e-6)


def test_both_directions(losses) -> None:  # type: ignore[no-untyped-def]
    for num_texts in (2, 3):
        found = vectors(num_texts)
        theirs = losses.MultipleNegativesRankingLoss(
            None, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
        )
        ours = in_batch_loss(found, numbers(num_texts), 0.05, symmetric=True)
        wanted = theirs.compute_loss_from_embeddings(columns(found), None)
        assert ours.item() == pytest.approx(wanted.item(), abs=1e-6)


def test_scores(losses) -> None:  # type: ignore[no-untyped-def]
    found, scores = vectors(2), torch.linspace(0, 1, 9).round(decimals=1)
    model = SentenceEncoder(Encoder(SHAPE))
    cosine = losses.CosineSimilarityLoss(None)
    wanted = cosine.compute_loss_from_embeddings(columns(found), scores)
    assert model.loss(found, scores).item() == pytest.approx(wanted.item(), abs=1e-6)
    wanted = losses.CoSENTLoss(None).compute_loss_from_embeddings(columns(found), scores)
    similarity = (found[:, 0] * found[:, 1]).sum(-1)
    assert cosent_loss(similarity, scores, 0.05).item() == pytest.approx(wanted.item(), abs=1e-5)
    model.score_loss = "cosent"
    assert model.loss(found, scores).item() == pytest.approx(wanted.item(), abs=1e-5)


def test_folders_give_the_same_vectors(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    save_model(Encoder(SHAPE), tmp_path / "m", tiny_tokenizer_dir)
    VectorRule("mean", normalize=True).write(tmp_path / "m", 32, 512)
    texts = ["A first text.", "Another one, which is longer than the first.", "x"]
    theirs = library.SentenceTransformer(str(tmp_path / "m"), device="cpu").encode(texts)
    assert np.abs(Predictor.load(tmp_path / "m").embed(texts) - theirs).max() < 1e-5
