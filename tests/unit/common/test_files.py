"""Files are whole or absent, and compressed ones read like plain ones."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

from litebert.common.errors import DataError
from litebert.common.files import (
    atomic_folder,
    atomic_path,
    open_binary,
    plain_suffix,
    read_json,
    sha256_file,
    write_json,
)
from packing import compressed


def test_atomic_path_replaces_only_on_success(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
    with atomic_path(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_atomic_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with pytest.raises(RuntimeError), atomic_folder(target) as temporary:
        (temporary / "weights").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with atomic_folder(target) as temporary:
        (temporary / "weights").write_text("whole")
    assert (target / "weights").read_text() == "whole"


def test_atomic_folder_refuses_or_replaces_what_is_there(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("x")
    with pytest.raises(DataError, match="not empty"), atomic_folder(target):
        pass
    with atomic_folder(target, replace=True) as temporary:
        (temporary / "new").write_text("y")
    assert [p.name for p in target.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [target]


def test_compressed_files_read_like_plain_ones(tmp_path: Path) -> None:
    content = b"one\ntwo\n" * 1000
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(content))
    (tmp_path / "a.txt.zst").write_bytes(zstandard.compress(content))
    for path in tmp_path.iterdir():
        with open_binary(path) as stream:
            assert b"".join(stream) == content
        assert plain_suffix(path) == ".txt"


def test_json_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(DataError, match="does not exist"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(DataError, match="a.json is not valid JSON"):
        read_json(path)
    path.write_text("[1]")
    with pytest.raises(DataError, match="expected an object"):
        read_json(path)
    write_json(path, {"ä": 1})
    assert read_json(path) == {"ä": 1}
    assert len(sha256_file(path)) == 64


def test_compressed_json_reads_like_plain_json(tmp_path: Path) -> None:
    content = '{"ä": 1}'.encode()
    for suffix in (".gz", ".xz", ".zst"):
        packed = compressed(content, suffix)
        path = tmp_path / f"a.json{suffix}"
        path.write_bytes(packed)
        assert read_json(path) == {"ä": 1}
        path.write_bytes(packed[:-9])
        with pytest.raises(DataError, match=f"a.json{suffix} cannot be read"):
            read_json(path)
