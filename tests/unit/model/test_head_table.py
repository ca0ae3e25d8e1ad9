"""The table of heads: every row can be used as it stands."""

from __future__ import annotations

from typing import get_args

import pytest

from litebert.model.head_table import HEADS, OUTPUTS, Head, head_class, outputs_of_head


def test_every_head_has_a_row_in_the_order_of_the_type() -> None:
    assert tuple(HEADS) == get_args(Head)


@pytest.mark.parametrize("head", HEADS)
def test_the_class_of_a_row_exists_and_the_row_is_consistent(head: Head) -> None:
    row = HEADS[head]
    assert isinstance(head_class(head), type)
    assert not row.linear or row.linear in row.modules
    assert set(row.output_names) < outputs_of_head(head)
    assert row.part_of is None or row.model_class == HEADS[row.part_of].model_class


def test_an_output_has_the_same_axes_in_every_head_that_gives_it() -> None:
    for row in HEADS.values():
        for output in row.outputs:
            assert output.per == OUTPUTS[output.name].per


def test_heads_of_one_architecture_are_told_apart() -> None:
    keys = [(row.architecture, row.problem_type) for row in HEADS.values()]
    assert len(set(keys)) == len(keys)
