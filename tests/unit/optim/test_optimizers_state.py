"""Optimisers: exclusions by name, variants, and state that goes on bitwise."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from litebert.common.errors import ConfigError
from litebert.model.config import ModelConfig
from litebert.model.heads import PretrainingModel
from litebert.optim.build import build_optimizers, is_excluded, set_learning_rate
from litebert.optim.config import OptimizerConfig
from litebert.optim.lamb import Lamb
from litebert.train import checkpoint


def tiny_model() -> PretrainingModel:
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=40, embedding_size=16, hidden_size=64, num_layers=2)
    return PretrainingModel(config)


def train(model: nn.Module, optimizers: list[torch.optim.Optimizer], steps: range) -> None:
    for step in steps:
        torch.manual_seed(step)
        ids = torch.randint(5, 40, (2, 8))
        out = model(
            ids,
            masked_positions_M=torch.tensor([1, 9]),
            masked_labels_M=torch.tensor([7, 8]),
            sentence_labels_B=torch.tensor([0, 1]),
        )
        out.loss.backward()
        set_learning_rate(optimizers, 1.0 - step / 20)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def test_exclusions_are_all_vectors_and_no_matrix() -> None:
    for name, parameter in tiny_model().named_parameters():
        assert is_excluded(name) == (parameter.ndim == 1), name


def test_groups_cover_every_parameter_once() -> None:
    model = tiny_model()
    for name in ("lamb", "adamw", "muon"):
        optimizers = build_optimizers(model.named_parameters(), OptimizerConfig(name=name), 1e-3)
        grouped = [p for o in optimizers for g in o.param_groups for p in g["params"]]
        assert {id(p) for p in grouped} == {id(p) for p in model.parameters()}
        assert len(grouped) == len(list(model.parameters()))


@pytest.mark.parametrize(
    "config",
    [OptimizerConfig(name="lamb"), OptimizerConfig(name="adamw", bias_correction=True), OptimizerConfig(name="muon")],
    ids=lambda config: config.name,
)
def test_saved_state_goes_on_bitwise(config: OptimizerConfig) -> None:
    straight = tiny_model()
    optimizers = build_optimizers(straight.named_parameters(), config, 1e-2)
    train(straight, optimizers, range(4))
    saved_weights = {k: v.clone() for k, v in checkpoint.model_tensors(straight).items()}
    saved_state = {k: v.clone() for k, v in checkpoint.optimizer_tensors(straight, optimizers).items()}
    train(straight, optimizers, range(4, 8))

    resumed = tiny_model()
    again = build_optimizers(resumed.named_parameters(), config, 1e-2)
    checkpoint.load_model_tensors(resumed, saved_weights)
    checkpoint.load_optimizer_tensors(resumed, again, saved_state)
    train(resumed, again, range(4, 8))
    for name, tensor in straight.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_trust_ratio_is_scale_free() -> None:
    """Scaling a tensor's gradient does not change LAMB's step; scaling the weights scales it."""

    def moved(weight_scale: float, gradient_scale: float) -> torch.Tensor:
        torch.manual_seed(1)
        weight = nn.Parameter(torch.randn(4, 3) * weight_scale)
        before = weight.detach().clone()
        weight.grad = torch.randn(4, 3) * 100 * gradient_scale
        Lamb([weight], lr=0.1, weight_decay=0.0).step()
        return weight.detach() - before

    reference = moved(1.0, 1.0)
    torch.testing.assert_close(moved(1.0, 10.0), reference, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(moved(3.0, 1.0), 3 * reference, rtol=1e-4, atol=1e-7)


def test_the_trust_ratio_can_be_bounded() -> None:
    def step(bound: float | None) -> float:
        weight = nn.Parameter(torch.full((2, 2), 50.0))
        weight.grad = torch.ones(2, 2)
        group = {"params": [weight], "max_trust_ratio": bound}
        Lamb([group], lr=0.1, weight_decay=0.0).step()
        return float((50.0 - weight.detach()).abs().max())

    assert step(None) > 1.0
    assert step(2.0) < step(None) / 5


def test_group_without_adaptation_moves_like_adamw() -> None:
    weight, other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    weight.grad, other.grad = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0])
    Lamb([{"params": [weight], "adapt": False}], lr=0.1).step()
    build_optimizers([("w", other)], OptimizerConfig(name="adamw"), 0.1)[0].step()
    assert torch.equal(weight, other)


def test_a_torch_without_muon_is_told_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon")
    named = list(tiny_model().named_parameters())
    assert len(build_optimizers(named, OptimizerConfig(name="lamb"), 1e-3)) == 1
    with pytest.raises(ConfigError, match=r"needs torch 2\.9"):
        build_optimizers(named, OptimizerConfig(name="muon"), 1e-3)
