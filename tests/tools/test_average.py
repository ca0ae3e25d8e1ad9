"""The mean of models' weights: every tensor of it, and shapes that differ are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from average import average

from litebert.common.errors import CheckpointError
from litebert.interop.hf import load_model, save_model
from litebert.model.config import ModelConfig
from litebert.model.heads import PretrainingModel, SpanExtractor

SHAPE = ModelConfig(vocab_size=60, hidden_size=24, num_heads=2, num_layers=3, embedding_size=8)


def saved(folder: Path, seed: int, shape: ModelConfig = SHAPE) -> PretrainingModel:
    model = PretrainingModel(shape, generator=torch.Generator().manual_seed(seed))
    save_model(model, folder)
    return model


def test_every_weight_is_the_mean(tmp_path: Path) -> None:
    first, second = (saved(tmp_path / str(seed), seed) for seed in range(2))
    average([tmp_path / "0", tmp_path / "1"], tmp_path / "mean")
    found = load_model(tmp_path / "mean").state_dict()
    for name, tensor in first.state_dict().items():
        torch.testing.assert_close(found[name], (tensor + second.state_dict()[name]) / 2)


def test_heads_that_only_one_has_are_the_last_ones(tmp_path: Path) -> None:
    before = saved(tmp_path / "before", 0)
    asked = SpanExtractor(SHAPE, generator=torch.Generator().manual_seed(1))
    save_model(asked, tmp_path / "asked")
    average([tmp_path / "asked", tmp_path / "before"], tmp_path / "mean")
    found = load_model(tmp_path / "mean", "pretraining").state_dict()
    for name, tensor in before.state_dict().items():
        both = name in asked.state_dict() and not name.startswith("encoder.pooler.")
        torch.testing.assert_close(found[name], (tensor + asked.state_dict()[name]) / 2 if both else tensor)


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    saved(tmp_path / "a", 0)
    saved(tmp_path / "b", 0, ModelConfig(vocab_size=60, hidden_size=48, num_heads=2, num_layers=3, embedding_size=8))
    with pytest.raises(CheckpointError, match="differ in the names or shapes"):
        average([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
