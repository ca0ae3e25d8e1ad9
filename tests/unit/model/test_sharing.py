"""Sharing plans: which block uses which parameters, for any strategy and any depth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.common.errors import ConfigError
from litebert.model.sharing import draw, plan

LAYERS = st.integers(1, 48)
INNER = st.integers(1, 3)
STRATEGIES = st.sampled_from(["all", "attention", "ffn", "none"])


def test_the_five_strategies() -> None:
    zeros, each = (0, 0, 0, 0), (0, 1, 2, 3)
    expected = {
        "all": (zeros, zeros, zeros),
        "attention": (zeros, each, each),
        "ffn": (each, zeros, each),
        "none": (each, each, each),
    }
    for strategy, tuples in expected.items():
        made = plan(strategy, 4)  # type: ignore[arg-type]
        assert (made.attention, made.feed_forward, made.norms) == tuples
    groups = plan("groups", 4, num_groups=2)
    assert groups.attention == groups.feed_forward == groups.norms == (0, 0, 1, 1)


@given(LAYERS, st.data())
def test_groups_are_all_used_in_order_and_of_nearly_equal_size(layers: int, data: st.DataObject) -> None:
    groups = data.draw(st.integers(1, layers))
    indices = plan("groups", layers, groups).attention
    assert list(indices) == [layer * groups // layers for layer in range(layers)]
    assert sorted(set(indices)) == list(range(groups))
    sizes = [indices.count(group) for group in range(groups)]
    assert max(sizes) - min(sizes) <= 1


@given(LAYERS, INNER)
def test_the_ends_of_grouping_are_all_and_none(layers: int, inner: int) -> None:
    assert plan("groups", layers, 1, inner) == plan("all", layers, 1, inner)
    assert plan("groups", layers, layers, inner) == plan("none", layers, 1, inner)


@given(STRATEGIES, LAYERS, INNER)
def test_inner_blocks_have_their_own_parameters(strategy: str, layers: int, inner: int) -> None:
    made = plan(strategy, layers, 1, inner)  # type: ignore[arg-type]
    assert len(made.blocks) == layers * inner
    assert made.num_layers == layers
    for indices in (made.attention, made.feed_forward, made.norms):
        for layer in range(layers):
            own = indices[layer * inner : (layer + 1) * inner]
            assert len(set(own)) == inner
            assert [index % inner for index in own] == list(range(inner))
        assert set(indices) == set(range(max(indices) + 1)), "no parameters without use"


@given(STRATEGIES, LAYERS, INNER, st.data())
def test_fewer_layers_are_the_first_ones(strategy: str, layers: int, inner: int, data: st.DataObject) -> None:
    made = plan(strategy, layers, 1, inner)  # type: ignore[arg-type]
    depth = data.draw(st.integers(1, layers))
    assert made.at_depth(depth).blocks == made.blocks[: depth * inner]


@given(LAYERS, INNER, st.integers(1, 100))
def test_one_repeated_layer_runs_at_any_depth(layers: int, inner: int, depth: int) -> None:
    assert plan("all", layers, 1, inner).at_depth(depth) == plan("all", depth, 1, inner)


@pytest.mark.parametrize("strategy", ["attention", "ffn", "none", "groups"])
def test_more_layers_than_parameters_are_refused(strategy: str) -> None:
    made = plan(strategy, 4, num_groups=2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"num_layers 5 .* 4 layers .* shares all"):
        made.at_depth(5)


def test_no_layers_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        plan("all", 4).at_depth(0)


def test_the_picture_names_each_set_with_a_letter() -> None:
    assert draw(plan("ffn", 4)).splitlines() == [
        "layer        0  1  2  3",
        "attention    A  B  C  D",
        "feed-forward A  A  A  A",
        "norms        A  B  C  D",
    ]
    last = draw(plan("none", 28)).splitlines()[1].split()
    assert last[-3:] == ["Z", "AA", "AB"]
    inner = draw(plan("groups", 2, 2, 2)).splitlines()
    assert inner[0].split() == ["layer", "0", "1"]
    assert inner[1].split() == ["attention", "A", "B", "C", "D"]
