"""Tensor names are one-to-one for every shape and head, and foreign only where they may be."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.interop.hf import build_model
from litebert.interop.names import is_foreign, tensor_names
from litebert.model.config import ModelConfig, Sharing
from litebert.model.head_table import HEADS, Head

TINY: dict[str, Any] = {"vocab_size": 11, "embedding_size": 4, "hidden_size": 8, "num_heads": 2}


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    sharing = draw(st.sampled_from(get_args(Sharing)))
    num_layers = draw(st.integers(1, 5))
    num_groups = draw(st.integers(1, num_layers)) if sharing == "groups" else 1
    return ModelConfig(
        **TINY,
        num_layers=num_layers,
        sharing=sharing,
        num_groups=num_groups,
        inner_group_num=draw(st.integers(1, 2)),
        embedding_layout=draw(st.sampled_from(["factorized", "projected_words"])),
    )


@settings(max_examples=60, deadline=None)
@given(config=configs(), head=st.sampled_from(sorted(HEADS)))
def test_every_parameter_has_one_name(config: ModelConfig, head: Head) -> None:
    with torch.device("meta"):
        parameters = set(build_model(config, head).state_dict())
    names = tensor_names(config, head)
    ours = {name.removeprefix("encoder.") for name in names} if head == "encoder" else set(names)
    if head == "masked_lm":
        parameters -= {"sentence.weight", "sentence.bias"}
    assert ours == parameters
    assert len(set(names.values())) == len(names)


@settings(max_examples=60, deadline=None)
@given(config=configs())
def test_partial_sharing_and_projected_words_are_our_own(config: ModelConfig) -> None:
    expressible = config.embedding_layout == "factorized" and (
        config.sharing not in ("attention", "ffn") or config.num_layers == 1
    )
    assert is_foreign(config, "encoder") == expressible
    assert not is_foreign(config, "squad2")


def test_pairs_of_layers_and_groups_that_transformers_rounds_differently() -> None:
    pairs = [
        (layers, groups)
        for layers in range(1, 49)
        for groups in range(1, layers + 1)
        if not is_foreign(ModelConfig(**TINY, num_layers=layers, sharing="groups", num_groups=groups), "encoder")
    ]
    assert len(pairs) == 13
    assert pairs[0] == (18, 14)
    assert all(layers != groups for layers, groups in pairs), "not shared is always exact"


@pytest.mark.parametrize("module", ["names", "hf_config", "folder", "tf.bundle", "card"])
def test_modules_that_do_not_need_torch(module: str) -> None:
    code = f"import sys; sys.modules['torch'] = None; import litebert.interop.{module}"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
