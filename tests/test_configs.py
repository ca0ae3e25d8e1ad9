"""Every configuration file in the repository loads, strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from litebert.common.config import from_dict, read_toml

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


def files(kind: str) -> list[Path]:
    return sorted((CONFIGS / kind).glob("*.toml"))


@pytest.mark.parametrize("path", files("pretrain"), ids=lambda p: p.name)
def test_pretraining_recipes_load(path: Path) -> None:
    from litebert.train.pretraining.config import PretrainConfig

    values = {"data": "shards", "out": "run", **read_toml(path)}
    from_dict(PretrainConfig, values, str(path))


@pytest.mark.parametrize("path", files("experiments"), ids=lambda p: p.name)
def test_experiments_load_and_so_does_each_of_their_runs(path: Path) -> None:
    from litebert.experiments.config import load_experiment
    from litebert.experiments.plan import paper_config

    experiment = load_experiment(path.stem)
    for condition in experiment.rows("paper"):
        config, shape = paper_config(experiment, condition.name)
        assert (config.steps or 0) >= 125_000
        assert shape.vocab_size == 30_000
    assert experiment.exact or experiment.rows("cpu") or "Not run" in experiment.note
    assert experiment.finding.endswith(".")
    measures = {contrast.measure for contrast in experiment.contrasts}
    assert measures <= set(experiment.measures)
    rows = {condition.name for condition in experiment.rows("cpu")}
    for contrast in experiment.contrasts:
        assert contrast.weights.keys() | contrast.gap.keys() <= rows


def test_every_kind_of_config_is_tested() -> None:
    kinds = ("pretrain", "finetune", "experiments")
    tested = {path for kind in kinds for path in files(kind)}
    assert tested == set(CONFIGS.rglob("*.toml"))
    assert CONFIGS / "pretrain" / "tiny.toml" in tested
