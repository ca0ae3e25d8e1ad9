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


def test_every_kind_of_config_is_tested() -> None:
    tested = {path for kind in ("pretrain", "finetune") for path in files(kind)}
    assert tested == set(CONFIGS.rglob("*.toml"))
    assert CONFIGS / "pretrain" / "tiny.toml" in tested
