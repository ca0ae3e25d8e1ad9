"""Baselines of a fine-tuning: words alone, and the same recipe from random weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from litebert.cli import main
from litebert.common.errors import ConfigError
from litebert.common.files import read_json
from litebert.interop.hf import save_model
from litebert.model.config import ModelConfig
from litebert.model.pretraining import PretrainingModel
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import finetune

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "custom_task"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    shape = ModelConfig(
        vocab_size=1000, embedding_size=16, hidden_size=32, num_layers=1, num_heads=2,
        max_positions=64,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    save_model(PretrainingModel(shape, generator=generator), folder, tiny_tokenizer_dir)
    return folder


def config_of(kind: str, model: Path, out: Path, *baseline: str, steps: int = 4) -> FinetuneConfig:
    task = str(EXAMPLES / f"{kind}.toml")
    return FinetuneConfig(task, model=str(model), out=out, lr=1e-3, batch_size=8, steps=steps, baseline=baseline)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """A run of two seeds with both baselines, called as a user does."""
    out = tmp_path_factory.mktemp("baselines") / "run"
    task = str(EXAMPLES / "classification.toml")
    command = ["finetune", task, "--model", str(model), "--out", str(out), "--steps", "4"]
    main([*command, "--seeds", "2", "--baseline", "words,random", "--lr", "1e-3"])
    return out


def result(run: Path) -> dict[str, Any]:
    return read_json(run / "result.json")


def test_scores_of_the_baselines_stand_beside_the_result(run: Path) -> None:
    found = result(run)
    assert found["baselines"].keys() == {"words", "random"}
    assert found["baselines"]["words"]["accuracy"] > found["baseline"]["accuracy"] + 0.25
    assert found["baselines"]["random"].keys() == found["scores"].keys()
    assert result(run / "seed-1")["baselines"] == found["baselines"]


def test_random_weights_had_the_same_recipe_and_seeds(run: Path) -> None:
    random = result(run / "random")
    assert random["scores"] == result(run)["baselines"]["random"]
    assert random["baselines"] == {}
    assert [row["seed"] for row in random["by_seed"]] == [0, 1]
    config = json.loads((run / "random" / "manifest.json").read_text())["config"]
    own = json.loads((run / "manifest.json").read_text())["config"]
    changed = {key for key in own if own[key] != config[key]}
    assert changed == {"out", "start", "baseline"}


def test_report_and_card_name_them(run: Path) -> None:
    page = (run / "report.html").read_text()
    card = (run / "model" / "README.md").read_text()
    assert page.count("bag of words") >= 3  # tile, column, curve
    assert page.count("random weights") >= 3
    assert "| dev | score | baseline | bag of words | random weights |" in card
    assert "The bag of words is a linear model" in card


def test_a_run_without_them_is_as_before_and_takes_them_later(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = config_of("regression", model, tmp_path / "run")
    first = finetune(plain)
    assert first.baselines == {}
    assert "bag of words" not in (tmp_path / "run" / "model" / "README.md").read_text()
    later = finetune(replace(plain, resume="auto", baseline=("words",)))
    assert later.baselines["words"].keys() == first.scores.keys()
    assert replace(later, baselines={}) == first
    assert finetune(replace(plain, resume="auto")).baselines == later.baselines


def test_words_do_not_apply_to_every_kind(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = finetune(config_of("span_extraction", model, tmp_path / "run", "words", steps=1))
    assert found.baselines == {}
    assert "baseline words: does not apply to span extraction" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"baseline": ("word",)}, "baseline 'word' is not known. Did you mean 'words'?"),
        ({"baseline": ("random",), "start": "random"}, "starts from random weights"),
    ],
)
def test_impossible_baselines_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        FinetuneConfig("rte", out=Path("run"), **settings)
    assert message in str(error.value)


def test_names_come_with_commas_or_apart() -> None:
    for given in (("words,random",), ("words", "random"), ("words,random", "words")):
        assert FinetuneConfig("rte", out=Path("run"), baseline=given).baseline == ("words", "random")


def test_vectors_stand_beside_idf_and_those_before_training(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    found = finetune(config_of("similarity", model, out, "words", "untrained", steps=2))
    assert found.baselines.keys() == {"words", "untrained"}
    assert all(scores.keys() == found.scores.keys() for scores in found.baselines.values())
    assert "Untrained are the mean vectors" in (out / "model/README.md").read_text()
