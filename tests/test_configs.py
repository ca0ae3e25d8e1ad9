"""Every configuration file in the repository loads, strictly."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from schema import FILES, schema_text

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


def schema_files() -> list[tuple[str, Path]]:
    tasks = sorted((CONFIGS.parent / "examples").rglob("*.toml"))
    kinds = {"pretrain": "pretrain", "finetune": "finetune", "experiments": "experiment"}
    recipes = [(schema, path) for kind, schema in kinds.items() for path in files(kind)]
    return [*recipes, *(("task", path) for path in tasks)]


@pytest.mark.parametrize(("schema", "path"), schema_files(), ids=lambda p: getattr(p, "name", p))
def test_editors_agree_with_the_loader(schema: str, path: Path) -> None:
    rules = json.loads((CONFIGS / "schema" / f"{schema}.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(rules)
    values = read_toml(path)
    validator.validate(values)
    assert not validator.is_valid(values | {"learning_rte": 1})
    assert not validator.is_valid({key: {"not": "this"} for key in values})


@pytest.mark.parametrize("name", FILES)
def test_schemas_are_those_of_the_code(name: str) -> None:
    written = (CONFIGS / "schema" / f"{name}.json").read_text(encoding="utf-8")
    assert written == schema_text(name), "run `make schema`"
    jsonschema.Draft202012Validator.check_schema(json.loads(written))
