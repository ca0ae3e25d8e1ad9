"""Where a small model learns: what its head reads, rates by layer, the head first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from litebert.common.errors import ConfigError
from litebert.model.config import ModelConfig
from litebert.model.encoder import HeadInputs
from litebert.model.heads import SequenceClassifier
from litebert.optim.build import build_optimizers
from litebert.optim.config import OptimizerConfig
from litebert.predict.predictor import Predictor
from litebert.train.finetuning.engine import finetune
from litebert.train.finetuning.setup import is_below_head, rate_factor
from small_finetuning import small_finetuning

SHAPE = ModelConfig(vocab_size=50, embedding_size=16, hidden_size=64, num_layers=3)


def test_the_mean_leaves_padding_out() -> None:
    model = SequenceClassifier(replace(SHAPE, pooling="mean")).eval()
    alone = model(torch.tensor([[2, 7, 8, 3]])).logits
    padded = model(torch.tensor([[2, 7, 8, 3, 0, 0]]), torch.tensor([[1, 1, 1, 1, 0, 0]])).logits
    torch.testing.assert_close(alone, padded)
    inputs = HeadInputs(torch.tensor([[2, 7, 8, 3]]), None, None)
    states = model.encoder(inputs.ids_RS).sequence_BSH
    by_hand = model.classifier(model.encoder.pool_first(states.mean(1)))  # type: ignore[operator]
    torch.testing.assert_close(alone, by_hand)


@pytest.mark.parametrize(("sharing", "num_sets"), [("all", 1), ("none", 3)])
def test_rates_fall_towards_the_words(sharing: str, num_sets: int) -> None:
    model = SequenceClassifier(replace(SHAPE, sharing=sharing))  # type: ignore[arg-type]
    optimizers = build_optimizers(
        model.named_parameters(), OptimizerConfig(name="adamw"), 1.0, lambda name: rate_factor(name, num_sets, 0.5)
    )
    rates = {p: g["peak_lr"] for o in optimizers for g in o.param_groups for p in g["params"]}
    names = dict(model.named_parameters())
    assert set(rates) == set(names.values())
    assert rates[names["classifier.weight"]] == rates[names["encoder.pooler.weight"]] == 1.0
    assert rates[names[f"encoder.attention.{num_sets - 1}.query.weight"]] == 0.5
    assert rates[names["encoder.attention.0.query.bias"]] == 0.5**num_sets
    assert rates[names["encoder.embeddings.word.weight"]] == 0.5 ** (num_sets + 1)


def test_the_head_comes_first(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    pretrained = model_folder("pretraining")
    config = small_finetuning(pretrained, tmp_path / "a", "classification", head_share=0.5, steps=4, eval_every_steps=2)
    finetune(replace(config, steps=2, head_share=0.999))
    before = load_file(pretrained / "model.safetensors")
    after = load_file(tmp_path / "a" / "model" / "model.safetensors")
    kept = [n for n in before if n.startswith("albert.") and "pooler" not in n]
    assert all(torch.equal(before[name], after[name]) for name in kept)
    assert not torch.equal(before["albert.pooler.weight"], after["albert.pooler.weight"])
    result = finetune(replace(config, out=tmp_path / "b"))
    assert result.steps == 4


def test_pooling_is_recorded_in_the_folder(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    config = small_finetuning(model_folder("pretraining"), tmp_path / "run", "classification", pooling="mean")
    result = finetune(config)
    values = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert values["model_type"] == "litebert"
    assert values["pooling"] == "mean"
    assert result.model is not None
    assert Predictor.load(result.model).purpose.head == "classification"
    again = finetune(replace(config, out=tmp_path / "again", model=str(result.model), pooling=None))
    assert again.model is not None
    assert json.loads((again.model / "config.json").read_text())["model_type"] == "albert"


def test_names_below_the_head() -> None:
    assert is_below_head("encoder.attention.0.query.weight")
    assert not is_below_head("encoder.pooler.weight")
    assert not is_below_head("classifier.bias")


@pytest.mark.parametrize("wrong", [{"lr_decay": 0.0}, {"head_share": 1.0}])
def test_rates_that_make_no_sense_are_refused(wrong: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        small_finetuning(tmp_path, tmp_path, "classification", **wrong)
