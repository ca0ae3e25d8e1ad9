"""A widened model computes what the narrow one did, and its copies part when it is trained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from widen import __file__ as script

from litebert.interop.hf import load_model, save_model
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.pretraining import PretrainingModel

SHAPE = ModelConfig(vocab_size=60, hidden_size=24, num_heads=2, num_layers=3, embedding_size=8)
IDS = torch.arange(5, 41).view(3, 12)


@pytest.fixture(name="models")
def _models(tmp_path: Path) -> list[PretrainingModel]:
    """A narrow model with large weights, biases and norms too, and the wide one."""
    generator = torch.Generator().manual_seed(0)
    model = PretrainingModel(SHAPE, generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    save_model(model, tmp_path / "narrow")
    arguments = [str(tmp_path / "narrow"), str(tmp_path / "wide"), "--intermediate-size", "130"]
    subprocess.run([sys.executable, str(script), *arguments], check=True)
    models = [load_model(tmp_path / name).eval() for name in ("narrow", "wide")]
    return [model for model in models if isinstance(model, PretrainingModel)]


def test_the_wide_model_says_what_the_narrow_one_says(models: list[PretrainingModel]) -> None:
    wide = models[1]
    assert (wide.config.hidden_size, wide.config.heads, wide.config.ffn) == (48, 4, 130)
    with torch.no_grad():
        said = [model(IDS, masked_positions_M=torch.tensor([3, 17, 30])) for model in models]
    for outputs in zip(*((out.mlm_logits_MV, out.sentence_logits_B2) for out in said), strict=True):
        assert outputs[0].abs().max() > 0.1
        torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-4)


def test_the_copies_of_a_unit_part(models: list[PretrainingModel]) -> None:
    wide = models[1].encoder
    first, second = _states(wide).chunk(2, dim=-1)
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-4)
    torch.autograd.backward(_states(wide)[..., 0].square().sum())
    for parameter in wide.feed_forward.parameters():
        assert parameter.grad is not None
        parameter.data -= 0.1 * parameter.grad / parameter.grad.norm()
    first, second = _states(wide).chunk(2, dim=-1)
    assert (first - second).abs().max() > 1e-3


def _states(encoder: Encoder) -> torch.Tensor:
    states: torch.Tensor = encoder(IDS).sequence_BSH
    return states
