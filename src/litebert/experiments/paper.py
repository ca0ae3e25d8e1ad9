"""Full-size runs as recipe files: what differs from the defaults, ready for `pretrain --config`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from litebert.common.config import to_dict
from litebert.common.files import write_text
from litebert.train.pretraining.config import PretrainConfig

_OF_A_MACHINE = ("data", "extra_data", "out")


def write_recipe(folder: Path, name: str, config: PretrainConfig) -> Path:
    """Write a configuration as TOML, without the folders of a machine; its path."""
    defaults = to_dict(PretrainConfig(config.data, config.out, steps=config.steps))
    values = {k: v for k, v in to_dict(config).items() if k not in _OF_A_MACHINE}
    if config.steps is not None:
        del defaults["steps"]
    path = folder / f"{re.sub(r'[^a-z0-9.]+', '-', name.lower()).strip('-')}.toml"
    write_text(path, "\n".join(_lines(values, defaults)) + "\n")
    return path


def _lines(
    values: Mapping[str, object], defaults: Mapping[str, object], table: str = ""
) -> Iterator[str]:
    """Lines of TOML for what differs, plain values before tables; JSON's values are TOML's."""
    differing = {k: v for k, v in values.items() if v is not None and v != defaults.get(k)}
    plain = {k: v for k, v in differing.items() if not isinstance(v, Mapping)}
    if table and plain:
        yield f"\n[{table}]"
    for key, value in plain.items():
        yield f"{key} = {json.dumps(value)}"
    for key, value in differing.items():
        if isinstance(value, Mapping):
            inner = defaults.get(key)
            assert isinstance(inner, Mapping), "a table is one in the defaults too"
            yield from _lines(value, inner, f"{table}.{key}" if table else key)
