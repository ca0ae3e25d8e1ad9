"""Tensor bundles are read exactly, and a cut, damaged or foreign file is named in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundle_writer import write_bundle
from litebert.common.errors import CheckpointError
from litebert.interop.tf.bundle import TensorBundle

FIXTURE = Path(__file__).resolve().parents[3] / "fixtures" / "tf_checkpoint"
NAME = "bert/pooler/dense/kernel"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the official checkpoint that a test may damage; returns its prefix."""
    for file in FIXTURE.glob("model.ckpt-best.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / "model.ckpt-best"


def test_official_checkpoint() -> None:
    bundle = TensorBundle(FIXTURE / "model.ckpt-best")
    assert len(bundle.entries) == 33
    assert bundle.entries["global_step"].shape == ()
    assert bundle.read(NAME).shape == (64, 64)
    total = sum(bundle.read(name).size for name in bundle.entries if name != "global_step")
    assert total * 4 + 8 == (FIXTURE / "model.ckpt-best.data-00000-of-00001").stat().st_size


shapes = st.lists(st.integers(1, 4), max_size=3)


@settings(max_examples=30, deadline=None)
@given(
    variables=st.dictionaries(st.text("ab/_", min_size=1, max_size=9), shapes, max_size=25),
    num_shards=st.integers(1, 3),
    items_per_block=st.integers(1, 7),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, list[int]], num_shards: int, items_per_block: int
) -> None:
    prefix = tmp_path_factory.mktemp("bundle") / "ckpt"
    random = np.random.default_rng(3)
    arrays = {name: random.normal(size=size).astype("f4") for name, size in variables.items()}
    write_bundle(prefix, arrays, num_shards=num_shards, items_per_block=items_per_block)
    bundle = TensorBundle(prefix)
    assert set(bundle.entries) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(bundle.read(name), array)


def test_other_float_types_become_float32(tmp_path: Path) -> None:
    values = np.array([[1.5, -2.0, 0.25]])
    bfloat16 = (values.astype("f4").view("u4") >> 16).astype("u2")
    arrays = {"half": values.astype("f2"), "double": values, "brain": bfloat16}
    write_bundle(tmp_path / "ckpt", arrays)
    bundle = TensorBundle(tmp_path / "ckpt")
    for name in arrays:
        assert bundle.read(name).dtype == np.float32
        np.testing.assert_array_equal(bundle.read(name), values)


def test_an_integer_is_not_read_as_a_weight() -> None:
    with pytest.raises(CheckpointError, match="global_step has element type 9"):
        TensorBundle(FIXTURE / "model.ckpt-best").read("global_step")


@pytest.mark.parametrize("length", [0, 47, 48, 100, 700, 1400, 1490])
def test_cut_index(copy: Path, length: int) -> None:
    index = copy.with_name("model.ckpt-best.index")
    index.write_bytes(index.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"index is not the index of a TensorFlow") as info:
        TensorBundle(copy)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("position", range(0, 1443, 37))
def test_damaged_index(copy: Path, position: int) -> None:
    """A flipped byte anywhere before the footer breaks a checksum; none gets through."""
    index = copy.with_name("model.ckpt-best.index")
    content = bytearray(index.read_bytes())
    original = TensorBundle(copy).entries
    content[position] ^= 0x55
    index.write_bytes(bytes(content))
    try:
        entries = TensorBundle(copy).entries
    except CheckpointError:
        return
    assert entries == original, "only bytes that are not used may change unnoticed"


def test_foreign_file(tmp_path: Path) -> None:
    (tmp_path / "ckpt.index").write_text("not a table at all, " * 20)
    with pytest.raises(CheckpointError, match="not the table's mark"):
        TensorBundle(tmp_path / "ckpt")


def test_missing_index(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"ckpt.index does not exist"):
        TensorBundle(tmp_path / "ckpt")


@pytest.mark.parametrize(
    ("options", "message"), [({"compression": 1}, "blocks are compressed"), ({"big_endian": True}, "big-endian")]
)
def test_variants_that_are_not_read(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_bundle(tmp_path / "ckpt", {"a": np.zeros(2, "f4")}, **options)
    with pytest.raises(CheckpointError, match=message):
        TensorBundle(tmp_path / "ckpt")


def test_cut_damaged_and_missing_data(copy: Path) -> None:
    data = copy.with_name("model.ckpt-best.data-00000-of-00001")
    content = data.read_bytes()
    entry = TensorBundle(copy).entries[NAME]
    damaged = bytearray(content)
    damaged[entry.offset + 5] ^= 1
    data.write_bytes(bytes(damaged))
    with pytest.raises(CheckpointError, match=f"checksum of {NAME}"):
        TensorBundle(copy).read(NAME)
    data.write_bytes(content[: entry.offset + 10])
    with pytest.raises(CheckpointError, match=f"is cut: {NAME}"):
        TensorBundle(copy).read(NAME)
    data.unlink()
    with pytest.raises(CheckpointError, match="data-00000-of-00001 does not exist"):
        TensorBundle(copy).read(NAME)
