"""Checkpoints: atomic folders of tensors and state with checksums; damage is found and named."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor
from torch.optim import Optimizer

from litebert.common.errors import CheckpointError, DataError
from litebert.common.files import atomic_folder, sha256_file, write_json
from litebert.common.limits import check_regular, parse_json
from litebert.common.ownership import clear_leftovers
from litebert.dist.replica import copy_into, whole

STATE_FILE = "state.json"
WEIGHTS_FILE = "weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
AVERAGE_FILE = "average.safetensors"  # only in runs that average their weights


class UnreadableError(CheckpointError):
    """A checkpoint that may be whole but cannot be read: a failing disk, a missing right."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk whose files were found whole."""

    path: Path
    step: int
    state: Mapping[str, Any]  # as :func:`save` got it, with ``step``, checksums of the ``files`` and its own

    def tensors(self, file: str) -> dict[str, Tensor]:
        """Read one of the files of tensors."""
        try:
            return safetensors.torch.load_file(self.path / file)
        except (FileNotFoundError, safetensors.SafetensorError) as error:
            raise CheckpointError(f"checkpoint {self.path} is damaged: {file}: {error}") from None


def save(folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object]) -> Path:
    """Write ``folder/step-N`` whole or not at all.

    ``tensors`` is file name -> tensors by name; ``state`` is JSON values, to which the checksums of all files and its
    own are added.
    """
    target = folder / f"step-{step}"
    with _writing(target, "written", "the earlier ones are"), atomic_folder(target, replace=True) as temporary:
        checksums = {}
        for name, named_tensors in tensors.items():
            contiguous = {key: t.contiguous().cpu() for key, t in named_tensors.items()}
            safetensors.torch.save_file(contiguous, temporary / name)
            checksums[name] = sha256_file(temporary / name)
        _write_state(temporary, {"step": step, **state, "files": checksums})
    return target


def amend(path: Path, changes: Mapping[str, object]) -> None:
    """Change values of a checkpoint's state, all or none; its tensors stay as they are."""
    state = {**read(path).state, **changes}
    with _writing(path, "changed", "it is"):
        _write_state(path, state)


@contextmanager
def _writing(path: Path, verb: str, intact: str) -> Iterator[None]:
    try:
        yield
    except (OSError, safetensors.SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"checkpoint {path} cannot be {verb}: {reason}; {intact} intact: make room and go on with --resume auto"
        ) from error


def read(path: Path) -> Checkpoint:
    """Read a checkpoint's state and check it, but not the tensors.

    CheckpointError on damage, UnreadableError if the disk does not give it.
    """
    file = path / STATE_FILE
    with _reading(path, STATE_FILE):
        if file.exists():
            check_regular(file)
        state = parse_json(file.read_bytes())
        if not isinstance(state, dict) or not isinstance(state.get("step"), int):
            raise ValueError("not the state of a step")
        if not isinstance(state.get("files"), dict):
            raise ValueError("it lists no files")
    if state.get("checksum") != _digest(state):
        raise CheckpointError(f"checkpoint {path} is damaged: {STATE_FILE} was changed")
    return Checkpoint(path, state["step"], state)


def verify(path: Path) -> Checkpoint:
    """Read a checkpoint's state and check every file against it; the errors of :func:`read`."""
    found = read(path)
    for name, checksum in found.state["files"].items():
        with _reading(path, name):
            is_whole = sha256_file(path / name) == checksum
        if not is_whole:
            raise CheckpointError(f"checkpoint {path} is damaged: {name} has a wrong checksum")
    return found


@contextmanager
def _reading(path: Path, name: str) -> Iterator[None]:
    """Tell what is wrong with a file of a checkpoint: damage, or a disk that does not give it."""
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"checkpoint {path} is damaged: {name} is missing") from None
    except OSError as error:
        raise UnreadableError(f"checkpoint {path} cannot be read: {error.strerror or error}") from error
    except (DataError, ValueError) as error:
        raise CheckpointError(f"checkpoint {path} is damaged: {name}: {error}") from None


def steps_in(folder: Path) -> list[int]:
    """Steps of the checkpoints in a folder, ascending, damaged ones included."""
    entries = folder.iterdir() if folder.is_dir() else ()
    matches = [re.fullmatch(r"step-(\d+)", entry.name) for entry in entries if entry.is_dir()]
    return sorted(int(match.group(1)) for match in matches if match)


def latest_good(folder: Path, report: Callable[[str], None]) -> Checkpoint | None:
    """The latest checkpoint that is whole; each one that was passed over is reported.

    Returns None if there is no checkpoint at all; CheckpointError if none can be used.
    """
    errors = []
    for step in reversed(steps_in(folder)):
        try:
            return verify(folder / f"step-{step}")
        except CheckpointError as error:
            errors.append(error)
            report(f"{error}; using the one before")
    for failure in errors:
        if isinstance(failure, UnreadableError):
            raise CheckpointError(f"{failure}, and no other one is whole: check the disk")
    if errors:
        raise CheckpointError(
            f"all {len(errors)} checkpoints in {folder} are damaged: remove the run folder to start again"
        )
    return None


def drop_after(folder: Path, step: int) -> None:
    """Clear the way for a run that goes on from a step and writes the later checkpoints again.

    They are deleted, except what cannot be read now and so may be whole: that gets another name.
    """
    for path in [folder / f"step-{later}" for later in steps_in(folder) if later > step]:
        try:
            verify(path)
        except UnreadableError:
            path.rename(folder / f"unreadable-{path.name}")
        except CheckpointError:
            pass
        shutil.rmtree(path, ignore_errors=True)


def prune(folder: Path, keep_last: int, keep: Sequence[int]) -> None:
    """Delete all but the last checkpoints and those of the steps in ``keep``; clear leftovers."""
    for step in steps_in(folder)[: -max(1, keep_last)]:
        if step not in keep:
            shutil.rmtree(folder / f"step-{step}", ignore_errors=True)
    clear_leftovers(folder)


def model_tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """All weights by name, whole (a collective call if they are sharded)."""
    return {name: whole(tensor) for name, tensor in model.state_dict().items()}


def finished_tensors(found: Checkpoint) -> dict[str, Tensor]:
    """The weights that a model folder gets: the averaged ones where there are any."""
    average = found.tensors(AVERAGE_FILE) if AVERAGE_FILE in found.state["files"] else {}
    return {**found.tensors(WEIGHTS_FILE), **average}


def load_model_tensors(model: torch.nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy whole weights into a model, sharded or not."""
    own = model.state_dict()
    if own.keys() != tensors.keys():
        odd = sorted(own.keys() ^ tensors.keys())
        raise CheckpointError(f"the checkpoint is of another model: {odd[0]} is on one side only")
    for name, target in own.items():
        if tensors[name].shape != target.shape or not tensors[name].is_floating_point():
            raise CheckpointError(
                f"the checkpoint is of another model: {name} has {tuple(tensors[name].shape)} of "
                f"{tensors[name].dtype}, not {tuple(target.shape)}"
            )
        copy_into(target, tensors[name])


def optimizer_tensors(model: torch.nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """The optimisers' state as ``parameter/key`` -> whole tensor."""
    names: dict[Tensor, str] = {p: name for name, p in model.named_parameters()}
    return {
        f"{names[parameter]}/{key}": whole(value)
        for optimizer in optimizers
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }


def load_optimizer_tensors(
    model: torch.nn.Module, optimizers: Sequence[Optimizer], tensors: Mapping[str, Tensor]
) -> None:
    """Give the optimisers back the state that :func:`optimizer_tensors` took."""
    owners = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    for full_name, tensor in tensors.items():
        name, _, key = full_name.rpartition("/")
        parameter = parameters.get(name)
        if parameter is None or parameter not in owners:
            raise CheckpointError(f"the checkpoint's optimizer trains {name}, this model does not")
        state = owners[parameter].state[parameter]
        if tensor.ndim == 0:
            state[key] = tensor.clone()
        elif tensor.shape == parameter.shape:
            state[key] = torch.empty_like(parameter, requires_grad=False)
            copy_into(state[key], tensor)
        else:
            raise CheckpointError(
                f"the checkpoint's optimizer has {tuple(tensor.shape)} for {name}, which has {tuple(parameter.shape)}"
            )


def _write_state(folder: Path, state: Mapping[str, object]) -> None:
    write_json(folder / STATE_FILE, {**state, "checksum": _digest(state)})


def _digest(state: Mapping[str, object]) -> str:
    content = {key: value for key, value in state.items() if key != "checksum"}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
