"""Input by address: the same shards as from the file, copied once, one line where it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest

from litebert.cli import main
from litebert.common.errors import DataError, InputError
from litebert.common.files import read_json
from litebert.text.corpus import CACHE_VARIABLE, find_files, remote_url

TEXT = "A list has an order.\nA set has none.\n\nA dictionary maps keys to values.\n" * 40


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A file system in memory with two texts; copies go to a folder of the test."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pipe({"/corpus/a.txt": TEXT.encode(), "/corpus/more/b.txt": b"One more line.\n"})
    return system


def test_shards_are_those_of_the_file(memory: Any, tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    made = {}
    for name, given in {
        "local": str(tmp_path / "a.txt"),
        "file": f"file://{tmp_path}/a.txt",
        "memory": "memory://corpus/a.txt",
    }.items():
        out = tmp_path / name
        main(["prepare", "--input", given, "--tokenizer", str(tiny_tokenizer_dir), "--out", str(out)])
        made[name] = read_json(out / "manifest.json")["splits"]
    assert made["memory"] == made["file"] == made["local"]


def test_a_file_is_copied_once_and_again_when_it_changed(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    get_file = type(memory).get_file

    def counted(self: Any, name: str, *rest: Any, **more: Any) -> None:
        copied.append(name)
        get_file(self, name, *rest, **more)

    monkeypatch.setattr(type(memory), "get_file", counted)
    first = find_files([Path("memory://corpus")])
    assert [path.name for path in first] == ["a.txt", "b.txt"]
    assert find_files([Path("memory://corpus")]) == first
    assert copied == ["/corpus/a.txt", "/corpus/more/b.txt"]
    memory.pipe({"/corpus/a.txt": b"Another line.\n"})
    assert find_files([Path("memory://corpus/*.txt")]) == first[:1]
    assert copied[2:] == ["/corpus/a.txt"]
    assert first[0].read_bytes() == b"Another line.\n"


def test_a_copy_that_broke_off_is_not_taken_for_one(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, name: str, target: str, **more: Any) -> None:
        Path(target).write_bytes(b"A li")
        raise ConnectionResetError("the connection was reset")

    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "get_file", broken)
        with pytest.raises(DataError, match="connection was reset"):
            find_files([Path("memory://corpus/a.txt")])
    (copy,) = find_files([Path("memory://corpus/a.txt")])
    assert copy.read_bytes() == TEXT.encode()


def test_what_cannot_be_read_is_one_line(memory: Any, tmp_path: Path) -> None:
    for url, expected in {
        "memory://nowhere": "matches no file",
        "memory://corpus/*.xml": "matches no file",
        "nosuch://bucket/a.txt": "cannot be read.*nosuch",
        "s3://bucket/a.txt": "s3fs",
    }.items():
        with pytest.raises((DataError, InputError), match=expected) as error:
            find_files([Path(url)])
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", ["corpus/a.txt", "C:/corpus/a.txt", "/corpus/a:b", "a.txt"])
def test_paths_are_not_addresses(path: str) -> None:
    assert remote_url(Path(path)) is None
