"""The usage examples in the model's docstrings run and give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest
import torch

from litebert.model.config import ModelConfig

MODULES = [
    "config",
    "counts",
    "encoder",
    "heads",
    "layers",
    "pretraining",
    "sharing",
    "squad2",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"litebert.model.{name}")
    names = {"torch": torch, "ModelConfig": ModelConfig, **vars(module)}
    result = doctest.testmod(module, globs=names)
    assert result.attempted > 0
    assert result.failed == 0
