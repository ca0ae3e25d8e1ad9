"""Checkpoints are whole or absent; any flipped byte is found, named, and passed over."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from litebert.common.errors import CheckpointError
from litebert.common.files import sha256_file
from litebert.train import checkpoint


def write(folder: Path, step: int) -> Path:
    torch.manual_seed(step)
    tensors = {
        checkpoint.WEIGHTS_FILE: {"w": torch.randn(4, 4)},
        checkpoint.OPTIMIZER_FILE: {"w/exp_avg": torch.randn(4, 4)},
    }
    return checkpoint.save(folder, step, tensors, {"run": {"step": step}})


def flip_byte(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_round_trip(tmp_path: Path) -> None:
    path = write(tmp_path, 7)
    found = checkpoint.verify(path)
    torch.manual_seed(7)
    assert torch.equal(found.tensors(checkpoint.WEIGHTS_FILE)["w"], torch.randn(4, 4))
    assert (found.step, found.state["run"]) == (7, {"step": 7})


@pytest.mark.parametrize("file", [checkpoint.WEIGHTS_FILE, checkpoint.OPTIMIZER_FILE, checkpoint.STATE_FILE])
def test_every_flipped_byte_is_found_and_the_one_before_is_used(tmp_path: Path, file: str) -> None:
    write(tmp_path, 10)
    damaged = write(tmp_path, 20) / file
    for offset in range(0, damaged.stat().st_size, 7):
        flip_byte(damaged, offset)
        messages: list[str] = []
        found = checkpoint.latest_good(tmp_path, messages.append)
        assert found is not None
        assert found.step == 10, offset
        assert "step-20" in messages[0]
        flip_byte(damaged, offset)
    found = checkpoint.latest_good(tmp_path, pytest.fail)
    assert found is not None
    assert found.step == 20


def test_missing_file_is_damage(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    (path / checkpoint.WEIGHTS_FILE).unlink()
    with pytest.raises(CheckpointError, match=r"weights\.safetensors is missing"):
        checkpoint.verify(path)
    with pytest.raises(CheckpointError, match="all 1 checkpoints"):
        checkpoint.latest_good(tmp_path, lambda _: None)


def test_no_checkpoint_is_no_error(tmp_path: Path) -> None:
    assert checkpoint.latest_good(tmp_path / "absent", pytest.fail) is None


def test_last_and_best_are_kept_and_leftovers_cleared(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 50):
        write(tmp_path, step)
    (tmp_path / ".step-60.abcdefgh.tmp").mkdir()
    checkpoint.prune(tmp_path, keep_last=2, keep=[20])
    assert checkpoint.steps_in(tmp_path) == [20, 40, 50]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-20", "step-40", "step-50"]


@pytest.mark.parametrize("failing", ["save_file", "write_json"])
def test_a_full_disk_leaves_the_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    write(tmp_path, 10)

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    owner = "safetensors.torch" if failing == "save_file" else "litebert.train.checkpoint"
    monkeypatch.setattr(f"{owner}.{failing}", no_space)
    with pytest.raises(CheckpointError, match=r"No space left on device.*--resume auto"):
        write(tmp_path, 20)
    found = checkpoint.latest_good(tmp_path, pytest.fail)
    assert found is not None
    assert found.step == 10
    assert [p.name for p in tmp_path.iterdir()] == ["step-10"]


def test_rewriting_a_step_replaces_it(tmp_path: Path) -> None:
    flip_byte(write(tmp_path, 10) / checkpoint.WEIGHTS_FILE, 100)
    write(tmp_path, 10)
    assert checkpoint.verify(tmp_path / "step-10").step == 10


def test_those_behind_a_step_are_dropped(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        write(tmp_path, step)
    checkpoint.drop_after(tmp_path, 10)
    assert checkpoint.steps_in(tmp_path) == [10]


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files that the disk does not give."""
    names: set[str] = set()
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> None:
        if f"{path.parent.name}/{path.name}" in names:
            raise OSError(5, "Input/output error", str(path))

    def hashing(path: Path) -> str:
        refuse(path)
        return sha256_file(path)

    def reading(path: Path) -> bytes:
        refuse(path)
        return read_bytes(path)

    monkeypatch.setattr(checkpoint, "sha256_file", hashing)
    monkeypatch.setattr(Path, "read_bytes", reading)
    return names


@pytest.mark.parametrize("file", [checkpoint.WEIGHTS_FILE, checkpoint.STATE_FILE])
def test_what_cannot_be_read_is_passed_over_and_not_deleted(tmp_path: Path, unreadable: set[str], file: str) -> None:
    for step in (10, 20, 30):
        write(tmp_path, step)
    flip_byte(tmp_path / "step-30" / checkpoint.WEIGHTS_FILE, 100)
    unreadable.add(f"step-20/{file}")
    messages: list[str] = []
    found = checkpoint.latest_good(tmp_path, messages.append)
    assert found is not None
    assert found.step == 10
    assert "step-20 cannot be read: Input/output error; using the one before" in messages[1]
    checkpoint.drop_after(tmp_path, found.step)
    unreadable.clear()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-10", "unreadable-step-20"]
    assert checkpoint.steps_in(tmp_path) == [10]
    assert checkpoint.verify(tmp_path / "unreadable-step-20").step == 20


def test_nothing_but_unreadable_ones_is_no_reason_to_start_again(tmp_path: Path, unreadable: set[str]) -> None:
    write(tmp_path, 10)
    unreadable.add(f"step-10/{checkpoint.STATE_FILE}")
    with pytest.raises(CheckpointError, match=r"step-10 cannot be read.*check the disk"):
        checkpoint.latest_good(tmp_path, lambda _: None)


def test_a_state_may_change_and_stays_checked(tmp_path: Path) -> None:
    path = write(tmp_path, 10)
    checkpoint.amend(path, {"run": {"step": 10, "best_step": 4}})
    assert checkpoint.verify(path).state["run"] == {"step": 10, "best_step": 4}
