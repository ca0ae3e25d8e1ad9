"""What files and flags may ask for is bounded: kind of file, depth, digits, memory, sizes."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from litebert.common.config import check_range, from_dict, read_toml
from litebert.common.errors import ConfigError, DataError, blame
from litebert.common.files import open_binary, read_bytes, read_json, sha256_file, write_json
from litebert.common.limits import check_regular, machine_memory, parse_json


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe would wait for ever, a device never end."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    (tmp_path / "device.json").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.json"))
        for name, said in {
            "pipe": "a pipe",
            "folder": "a folder",
            "device": "a device",
            "socket": "a socket",
            "loop": "symbolic links",
            "nothing": "does not exist",
        }.items():
            for read in (read_json, open_binary, check_regular, lambda path: read_bytes(path, 9)):
                with pytest.raises(DataError, match=said):
                    read(tmp_path / f"{name}.json")
            with pytest.raises(ConfigError, match=said):
                read_toml(tmp_path / f"{name}.json")
    for name in ("pipe", "device"):
        with pytest.raises(DataError, match="copy the content"):
            sha256_file(tmp_path / f"{name}.json")
    with pytest.raises(DataError, match="not a file name"):
        check_regular("a\0b")


def test_json_is_bounded_in_depth_digits_and_memory() -> None:
    assert parse_json("[" * 100 + "]" * 100) is not None
    for depth in (102, 100_000):
        with pytest.raises(ValueError, match="brackets inside each other"):
            parse_json("[" * depth + "]" * depth)
    with pytest.raises(ValueError, match="brackets inside each other"):
        parse_json('{"a":' * 102 + "1" + "}" * 102)
    assert parse_json("9" * 300) == 10**300 - 1
    with pytest.raises(ValueError, match="digits"):
        parse_json("9" * 301)
    with pytest.raises(ValueError, match="memory"):
        parse_json("[" + "[]," * 3_000_000 + "[]]")
    assert parse_json("[" + "[]," * 3000 + "[]]", memory=10**6) is not None
    assert parse_json(b'\xef\xbb\xbf{"a": "\\ud800"}') == {"a": "\ud800"}


def test_a_file_longer_than_allowed_is_not_read(tmp_path: Path) -> None:
    sparse = tmp_path / "config.json"
    with sparse.open("wb") as stream:
        stream.truncate(1 << 40)
    for read in (read_json, read_toml):
        with pytest.raises((DataError, ConfigError), match="more than"):
            read(sparse)


def test_what_is_not_a_character_survives_as_an_escape(tmp_path: Path) -> None:
    """A file name of bytes that are not UTF-8 ends in manifests."""
    name = os.fsdecode(b"caf\xe9.txt")
    write_json(tmp_path / "a.json", {"name": name})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"name": name}


@dataclass(frozen=True)
class Sizes:
    count: int = 1
    share: float = 0.5

    def __post_init__(self) -> None:
        check_range(self, "1 or more", "count", most=1000)
        check_range(self, "0 or more", "share")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"count": 10**9}, "use 1 or more, at most 1,000"),
        ({"count": 0}, "use 1 or more"),
        ({"count": 2**70}, "should be of type int"),
        ({"share": float("nan")}, "should be of type float"),
        ({"share": 10**400}, "should be of type float"),
        ({"share": 1e300}, "at most"),
        ({"count": [[[]]]}, "should be of type int"),
    ],
)
def test_every_number_has_a_bound_and_the_error_names_the_file(values: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match="sizes.json: ") as caught:
        from_dict(Sizes, values, "sizes.json")
    assert said in str(caught.value)


def test_deep_toml_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("a = " + "[" * 50_000)
    with pytest.raises(ConfigError, match=r"a\.toml"):
        read_toml(tmp_path / "a.toml")


def test_blame_names_the_file_and_leaves_other_errors_alone() -> None:
    with pytest.raises(DataError, match="state.json is damaged .* KeyError 'step'"), blame("state.json"):
        dict[str, int]()["step"]
    with pytest.raises(DataError, match="^plain$"), blame("state.json"):
        raise DataError("plain")
    with pytest.raises(OSError, match="disk"), blame("state.json"):
        raise OSError("disk")


def test_the_memory_of_the_machine_is_known() -> None:
    assert 1 << 28 < machine_memory() < 1 << 50
