"""Recipes and settings: every file loads and says what Table 14 says; flags beat recipes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from litebert.common.config import from_dict, read_toml
from litebert.common.errors import ConfigError
from litebert.model.config import preset
from litebert.tasks.registry import TASK_NAMES, find_task
from litebert.train.finetuning.config import FinetuneConfig, Settings
from litebert.train.finetuning.recipes import PAPER_RECIPES, SMALL_RECIPES, Recipe, recipe_for

CONFIGS = Path(__file__).resolve().parents[4] / "configs" / "finetune"
SMALL_FILES = {
    "small-classification": "classification",
    "small-regression": "regression",
    "small-tags": "tags",
    "small-choice": "choice",
    "small-span": "span",
}


def expected(name: str) -> Recipe:
    if name in SMALL_FILES:
        return SMALL_RECIPES[SMALL_FILES[name]]
    return PAPER_RECIPES["race" if name == "race-v2" else name]


def load(path: Path) -> FinetuneConfig:
    values = {"task": "rte", "model": "m", "out": "run", **read_toml(path)}
    return from_dict(FinetuneConfig, values, str(path))


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda p: p.stem)
def test_every_file_equals_its_recipe(path: Path) -> None:
    recipe = expected(path.stem)
    plain = FinetuneConfig("rte", model="m", out=Path("run"))
    features = 10_000
    from_file = Settings.resolve(load(path), recipe, recipe.max_length, features)
    from_table = Settings.resolve(plain, recipe, recipe.max_length, features)
    assert from_file == from_table
    assert load(path).max_length == recipe.max_length


def test_every_recipe_has_a_file() -> None:
    names = {path.stem for path in CONFIGS.glob("*.toml")}
    assert names == {*SMALL_FILES, "race-v2"} | (set(PAPER_RECIPES) - {"race"})


@pytest.mark.parametrize(
    ("name", "row"),
    [  # Table 14, read from the paper once more: lr, batch, dropout, steps, warm-up, length
        ("cola", (1e-5, 16, 0.0, 5336, 320, 512)),
        ("stsb", (2e-5, 16, 0.0, 3598, 214, 512)),
        ("sst2", (1e-5, 32, 0.0, 20935, 1256, 512)),
        ("mnli", (3e-5, 128, 0.0, 10000, 1000, 512)),
        ("qnli", (1e-5, 32, 0.0, 33112, 1986, 512)),
        ("mrpc", (2e-5, 32, 0.0, 800, 200, 512)),
        ("wnli", (2e-5, 16, 0.1, 2000, 250, 512)),
        ("qqp", (5e-5, 128, 0.1, 14000, 1000, 512)),
        ("rte", (3e-5, 32, 0.1, 800, 200, 512)),
        ("squad1", (5e-5, 48, 0.0, 3649, 365, 384)),
        ("squad2", (3e-5, 48, 0.0, 8144, 814, 512)),
        ("race-v1", (2e-5, 32, 0.1, 12000, 1000, 512)),
    ],
)
def test_table_14(name: str, row: tuple[float, ...]) -> None:
    config = FinetuneConfig("rte", model="m", out=Path("run"))
    s = Settings.resolve(config, PAPER_RECIPES[name], PAPER_RECIPES[name].max_length, 100_000)
    assert (s.lr, s.batch_size, s.dropout, s.steps, s.warmup_steps, s.max_length) == row


def test_every_task_has_a_recipe_for_small_and_for_paper_models() -> None:
    small, base = preset("albert-small"), preset("albert-base")
    for name in TASK_NAMES:
        task = find_task(name)
        assert recipe_for(task, small) is SMALL_RECIPES[task.form.recipe]
        assert recipe_for(task, base).lr < recipe_for(task, small).lr


def test_flags_beat_the_recipe_and_short_runs_scale_the_warm_up() -> None:
    config = FinetuneConfig("rte", model="m", out=Path("run"), steps=80, lr=1e-3)
    settings = Settings.resolve(config, PAPER_RECIPES["rte"], 512, 2490)
    assert (settings.steps, settings.warmup_steps, settings.lr) == (80, 20, 1e-3)
    assert settings.eval_every_steps == 8
    one_epoch = Settings.resolve(
        FinetuneConfig("rte", model="m", out=Path("run"), epochs=1), PAPER_RECIPES["rte"], 512, 2490
    )
    assert one_epoch.steps == one_epoch.steps_per_epoch == 78


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 3, "epochs": 1.0}, "give one"),
        ({"steps": 0}, "steps is 0"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"seeds": 0}, "seeds is 0"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, float], message: str) -> None:
    config = FinetuneConfig("rte", model="m", out=Path("run"))
    with pytest.raises(ConfigError, match=message):
        replace(config, **changes)


def test_length_is_bounded_by_recipe_task_and_model() -> None:
    config = FinetuneConfig("rte", model="m", out=Path("run"))
    recipe = PAPER_RECIPES["squad1"]
    assert Settings.max_length_of(config, recipe, 512, 512) == 384
    assert Settings.max_length_of(config, recipe, 256, 512) == 256
    assert Settings.max_length_of(config, recipe, 512, 128) == 128
    with pytest.raises(ConfigError, match="the model reads 8 to 128"):
        Settings.max_length_of(replace(config, max_length=256), recipe, 512, 128)
