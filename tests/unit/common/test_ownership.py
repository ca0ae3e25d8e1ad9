"""Folders are owned: locks, strangers, inputs, leftovers, and errors that name the folder."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from litebert.common import ownership
from litebert.common.errors import DataError
from litebert.common.files import atomic_folder, atomic_path, write_text
from litebert.common.ownership import LOCK_FILE, clear_leftovers, folder_lock, keep_files, keep_inputs, owned_folder

HOLD = """
import sys
from pathlib import Path
from litebert.common.files import atomic_folder
from litebert.common.ownership import owned_folder

path = Path(sys.argv[2])
hold = atomic_folder(path) if sys.argv[1] == "atomic" else owned_folder(path, lambda _: False)
with hold:
    print("held", flush=True)
    sys.stdin.read()
"""


def is_marked(folder: Path) -> bool:
    return (folder / "mark").is_file()


def holder(kind: str, path: Path) -> subprocess.Popen[str]:
    """Another process that writes the folder until its input ends or it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, kind, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock.__wrapped__, "__defaults__", (0.1,))  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["owned", "atomic"])
def test_a_second_process_is_refused_until_the_first_is_gone(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = holder(kind, out)

    def write() -> None:
        if kind == "atomic":
            with atomic_folder(out) as folder:
                write_text(folder / "mark", "")
        else:
            with owned_folder(out, is_marked):
                write_text(out / "mark", "")

    with pytest.raises(DataError, match=f"another litebert process is writing to {out}"):
        write()
    assert not is_marked(out)
    first.kill()
    first.communicate()
    write()
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is left behind"
    assert [path.name for path in out.iterdir()] == ["mark"]


def test_what_is_not_ours_is_named_and_stays(tmp_path: Path) -> None:
    for name in "bcdefgh":
        (tmp_path / name).write_text(name)
    (tmp_path / "a").mkdir()
    with (
        pytest.raises(DataError, match=r"a/, b, c, d, e and 3 more; .*another --out"),
        owned_folder(tmp_path, is_marked),
    ):
        pytest.fail("not ours")
    assert not (tmp_path / LOCK_FILE).exists()
    (tmp_path / "mark").touch()
    with owned_folder(tmp_path, is_marked):  # ours: files beside are left alone
        pass
    assert (tmp_path / "b").read_text() == "b"


def test_what_comes_before_the_mark_is_known(tmp_path: Path) -> None:
    (tmp_path / "random").mkdir()
    with owned_folder(tmp_path, is_marked, early=("random",)):
        pass
    with pytest.raises(DataError, match="random/"), owned_folder(tmp_path, is_marked):
        pass


def test_a_folder_that_stays_empty_is_not_left(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), owned_folder(tmp_path / "runs" / "a", is_marked):
        raise RuntimeError
    assert not (tmp_path / "runs").exists()
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="is a file"), owned_folder(tmp_path / "file", is_marked):
        pass


def test_an_input_is_neither_the_output_nor_inside_it(tmp_path: Path) -> None:
    model = tmp_path / "proj" / "model"
    model.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "proj")
    (tmp_path / "linked-model").symlink_to(model)
    for out, source in [
        ("proj", model), ("proj/", Path("proj/model")), ("proj/x/..", model), ("link", model),
        ("proj", tmp_path / "link" / "model"), ("proj", tmp_path / "linked-model"),
        ("proj/model", model),
    ]:  # fmt: skip
        path = tmp_path / out
        with pytest.raises(DataError, match=r"--model .* choose another output"):
            keep_inputs(path, [("--data", None), ("--model", tmp_path / source)])
    keep_inputs(tmp_path / "other", [("--model", model)])
    keep_inputs(model / "onnx", [("--model", model)])
    keep_inputs(tmp_path / "proj", [("--model", "albert/albert-base-v2")])


def test_a_file_is_not_written_over_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for target in ("run", "run/metrics.jsonl", "link/metrics.jsonl"):
        with pytest.raises(DataError, match="part of what is read"):
            keep_files(tmp_path / target, [("run", tmp_path / "run")])
    keep_files(tmp_path / "scores.md", [("run", tmp_path / "run"), ("--data", None)])


def test_leftovers_go_and_what_was_moved_aside_comes_back(tmp_path: Path) -> None:
    def folder(name: str, content: str = "x") -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(content)

    folder(".model.abcdefgh.tmp")
    folder(".model.abcdefgh.old", "earlier")
    folder(".other.abcdefgh.tmp")
    folder("..other.abcdefgh.tmp.12345678.tmp")
    (tmp_path / ".model.lock").touch()
    (tmp_path / ".state.json.a_c0efgh.tmp").touch()
    (tmp_path / ".report.html.abcdefgh.tmp").touch()  # of a report that is written just now
    (tmp_path / ".mine.tmp").touch()
    clear_leftovers(tmp_path, "model")
    assert (tmp_path / "model" / "weights").read_text() == "earlier"
    assert (tmp_path / ".other.abcdefgh.tmp").is_dir(), "it has a lock of its own"
    busy = holder("atomic", tmp_path / "busy")
    clear_leftovers(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {name for name in names if "busy" not in name} == {
        ".mine.tmp", ".report.html.abcdefgh.tmp", "model",
    }  # fmt: skip
    assert len(names) == 5, "what another process is writing stays, with its lock"
    busy.kill()
    busy.communicate()
    os.utime(tmp_path / ".report.html.abcdefgh.tmp", (0, 0))
    clear_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".mine.tmp", "model"}


def test_a_link_to_a_folder_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    with atomic_folder(tmp_path / "out") as folder:
        write_text(folder / "a", "a")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk" / "a").read_text() == "a"


def test_a_disk_without_locks_is_said_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with owned_folder(tmp_path / "a", is_marked):
        write_text(tmp_path / "a" / "mark", "")
    assert "one process at a time" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs file modes")
def test_a_folder_that_cannot_be_written_is_named_itself(tmp_path: Path) -> None:
    """Root may write everywhere, so the system's refusal is made by a file in the way."""
    folder = tmp_path / "read-only"
    folder.mkdir()

    def refused(error: OSError, name: Path) -> OSError:
        return type(error)(error.errno, error.strerror, str(name))

    denied = PermissionError(13, "Permission denied")
    for hidden in (".lock", ".model.lock", ".a.json.abcdefgh.tmp", ".m.abcdefgh.tmp/config.json"):
        with pytest.raises(PermissionError) as caught, ownership.naming(folder):
            raise refused(denied, folder / hidden)
        assert caught.value.filename == str(folder)
    with pytest.raises(PermissionError) as caught, ownership.naming(folder):
        raise refused(denied, folder / "config.json")
    assert caught.value.filename == str(folder / "config.json")


def test_a_full_disk_is_named_by_the_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught, atomic_path(tmp_path / "a") as path:
        raise OSError(28, "No space left on device", str(path))
    assert caught.value.filename == str(tmp_path)
    assert not list(tmp_path.iterdir())
