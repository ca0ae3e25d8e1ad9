"""Recipes and settings: the files say what Table 14 says, every task has one; flags beat them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from litebert.cli import run
from litebert.common.config import from_dict, load_toml, read_toml, recipe_path
from litebert.common.errors import ConfigError
from litebert.model.config import preset
from litebert.tasks.registry import TASK_NAMES, find_task
from litebert.train.finetuning.config import FinetuneConfig, Recipe, Settings, recipe_for

CONFIGS = Path(__file__).resolve().parents[4] / "configs" / "finetune"
PLAIN = FinetuneConfig("rte", model="m", out=Path("run"))
BASE, SMALL = preset("albert-base"), preset("albert-small")

# The paper's Table 14: rate, batch, ALBERT dropout, classifier dropout, steps, warm-up, length.
TABLE_14 = {
    "cola": (1e-5, 16, 0.0, 0.1, 5336, 320, 512),
    "stsb": (2e-5, 16, 0.0, 0.1, 3598, 214, 512),
    "sst2": (1e-5, 32, 0.0, 0.1, 20935, 1256, 512),
    "mnli": (3e-5, 128, 0.0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0.0, 0.1, 33112, 1986, 512),
    "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512),
    "mrpc": (2e-5, 32, 0.0, 0.1, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250, 512),
    "squad1": (5e-5, 48, 0.0, 0.1, 3649, 365, 384),
    "squad2": (3e-5, 48, 0.0, 0.1, 8144, 814, 512),
    "race-v1": (2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
}
# Where the files differ on purpose: the official head of SQuAD 1.1 has no dropout.
DEPARTURES = {"squad1": {"classifier_dropout": 0.0}}


def recipe(name: str) -> Recipe:
    return load_toml(Recipe, recipe_path("finetune", name))


@pytest.mark.parametrize("name", TABLE_14)
def test_table_14(name: str) -> None:
    lr, batch_size, dropout, classifier_dropout, steps, warmup_steps, max_length = TABLE_14[name]
    found = recipe(name)
    expected = replace(
        found,
        lr=lr,
        batch_size=batch_size,
        dropout=dropout,
        classifier_dropout=classifier_dropout,
        steps=steps,
        warmup_steps=warmup_steps,
        max_length=max_length,
        epochs=None,
        bias_correction=False,
    )
    assert found == replace(expected, **DEPARTURES.get(name, {}))  # type: ignore[arg-type]


def test_version_2_models_differ_on_race_only() -> None:
    assert recipe("race-v2") == replace(recipe("race-v1"), lr=1e-5, dropout=0.0)
    by_default = {recipe_for(find_task(name), BASE) for name in TASK_NAMES}
    assert by_default == {recipe(name) for name in {*TABLE_14, "race-v2"} - {"race-v1"}}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda p: p.stem)
def test_a_file_given_by_name_says_what_it_says_as_a_default(path: Path) -> None:
    values = {"task": "rte", "model": "m", "out": "run", **read_toml(path)}
    given = from_dict(FinetuneConfig, values, str(path))
    found = load_toml(Recipe, path)
    resolved = [Settings.resolve(c, found, found.max_length, 10_000) for c in (given, PLAIN)]
    assert resolved[0] == resolved[1]
    assert given.max_length == found.max_length


def test_a_recipe_is_chosen_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[FinetuneConfig] = []

    def stop(config: FinetuneConfig) -> None:
        seen.append(config)
        raise ConfigError("seen")

    monkeypatch.setattr("litebert.train.finetuning.engine.finetune", stop)
    with pytest.raises(ConfigError, match="seen"):
        run(["finetune", "race", "--config", "race-v1", "--out", str(tmp_path), "--data", "d"])
    assert (seen[0].lr, seen[0].dropout, seen[0].steps) == (2e-5, 0.1, 12000)


def test_every_kind_of_task_has_a_recipe_for_small_and_for_wide_models() -> None:
    own = Path(__file__).resolve().parents[4] / "examples" / "custom_task"
    tasks = [find_task(name) for name in (*TASK_NAMES, *map(str, sorted(own.glob("*.toml"))))]
    assert len({task.form.kind for task in tasks}) == 7
    for task in tasks:
        assert recipe_for(task, BASE).lr < recipe_for(task, SMALL).lr
        assert recipe_for(task, SMALL).epochs is not None


def test_what_weights_know_is_used_by_small_recipes_of_their_own() -> None:
    by_task = {name: recipe_for(find_task(name), SMALL) for name in ("sst2", "cola", "rte", "stsb")}
    assert by_task["rte"] == by_task["stsb"] == recipe("small-pairs")
    assert by_task["sst2"] == recipe("small-texts")
    assert by_task["cola"] == recipe("small-classification"), "words that are missing change what CoLA asks"
    assert recipe_for(find_task("rte"), BASE) == recipe("rte")
    for name in ("rte", "sst2"):
        assert recipe_for(find_task(name), SMALL, is_pretrained=False) == recipe("small-classification")


def test_flags_beat_the_recipe_and_short_runs_scale_the_warm_up() -> None:
    settings = Settings.resolve(replace(PLAIN, steps=80, lr=1e-3), recipe("rte"), 512, 2490)
    assert (settings.steps, settings.warmup_steps, settings.lr) == (80, 20, 1e-3)
    assert settings.eval_every_steps == 8
    one_epoch = Settings.resolve(replace(PLAIN, epochs=1), recipe("rte"), 512, 2490)
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
    with pytest.raises(ConfigError, match=message):
        replace(PLAIN, **changes)  # type: ignore[arg-type]


def test_length_is_bounded_by_recipe_task_and_model() -> None:
    squad = recipe("squad1")
    assert Settings.max_length_of(PLAIN, squad, 512, 512) == 384
    assert Settings.max_length_of(PLAIN, squad, 256, 512) == 256
    assert Settings.max_length_of(PLAIN, squad, 512, 128) == 128
    with pytest.raises(ConfigError, match="the model reads 8 to 128"):
        Settings.max_length_of(replace(PLAIN, max_length=256), squad, 512, 128)
