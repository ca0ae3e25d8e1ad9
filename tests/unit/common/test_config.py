"""Configuration is strict: keys, types, choices."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from litebert.common.config import Rule, check_range, from_dict, load_toml, read_toml, to_dict
from litebert.common.errors import ConfigError


@dataclass(frozen=True)
class Stage:
    at: float
    layers: int


@dataclass(frozen=True)
class Checkpoint:
    every_steps: int = 100
    keep: int = 3


@dataclass(frozen=True)
class Config:
    data: Path
    lr: float | None = None
    task: Literal["sop", "nsp"] = "sop"
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    depth: tuple[Stage, ...] = ()
    names: list[str] = field(default_factory=list)


def test_round_trip() -> None:
    values = {"data": "x", "lr": 1, "depth": [{"at": 0.5, "layers": 2}], "names": ["a"]}
    config = from_dict(Config, values)
    assert config.lr == 1.0
    assert config.depth == (Stage(0.5, 2),)
    assert from_dict(Config, to_dict(config)) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dta": "x"}, r"unknown key 'dta'. Did you mean 'data'\?"),
        ({"data": "x", "checkpoint": {"every_step": 1}}, "'checkpoint.every_step'. Did you mean"),
        ({"data": "x", "checkpoint": 3}, "checkpoint = 3 should be a table"),
        ({"data": "x", "task": "sob"}, r"'sob' is not one of 'sop', 'nsp'. Did you mean 'sop'\?"),
        ({"data": "x", "lr": "fast"}, "lr = 'fast' should be of type float"),
        ({"data": "x", "checkpoint": {"keep": True}}, "checkpoint.keep = True should be of type int"),
        ({"data": "x", "checkpoint": {"keep": 1.5}}, "checkpoint.keep = 1.5 should be of type int"),
        ({"data": "x", "depth": [{"at": 1}]}, r"missing key 'depth\[0\].layers'"),
        ({}, "missing key 'data'"),
    ],
)
def test_mistakes_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict(Config, values)


def test_toml_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(ConfigError, match="does not exist"):
        read_toml(path)
    path.write_text("a = ")
    with pytest.raises(ConfigError, match="a.toml is not valid TOML"):
        read_toml(path)
    path.write_text('data = "x"\nkeeep = 1\n')
    with pytest.raises(ConfigError, match="a.toml: unknown key 'keeep'"):
        load_toml(Config, path)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("1 or more", 1, 0),
        ("0 or more", 0, -1),
        ("more than 0", 0.1, 0),
        ("0 or more and less than 1", 0.0, 1.0),
        ("0 to 1", 1.0, 1.1),
    ],
)
def test_a_number_out_of_range_is_named(rule: Rule, good: float, bad: float) -> None:
    check_range(Config(Path("x"), lr=good), rule, "lr")
    check_range(Config(Path("x")), rule, "lr")
    for value in (bad, float("nan")):
        with pytest.raises(ConfigError, match=f"^optimizer.lr is {value}: use {rule}.$"):
            check_range(Config(Path("x"), lr=value), rule, "lr", table="optimizer")
