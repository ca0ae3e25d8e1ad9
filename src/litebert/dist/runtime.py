"""The processes of a run: who am I, on which device, what do we agree on, sums over all."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Literal, TypeVar, cast

import torch
import torch.distributed as torch_dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from litebert.common.errors import ConfigError, LitebertError

Parallel = Literal["auto", "none", "ddp", "fsdp"]
DeviceName = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "float32", "bfloat16"]

T = TypeVar("T")

_TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True)
class Process:
    """This process among all processes of the run; a single process is world size 1."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and talks to people."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Add numbers up over all processes, in float64."""
        if self.world_size == 1:
            return [float(value) for value in values]
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        torch_dist.all_reduce(tensor)
        return cast(list[float], tensor.tolist())

    def on_main(self, work: Callable[[], T]) -> T:
        """Do something on process 0 only; every process gets its result, or stops if it fails."""
        if self.world_size == 1:
            return work()
        answer: list[Any] = [None, "process 0 has stopped: its message says why"]
        try:
            if self.is_main:
                answer = [work(), None]
        finally:
            torch_dist.broadcast_object_list(answer, src=0, device=self.device)
        if answer[1] is not None:
            raise LitebertError(answer[1])
        return cast(T, answer[0])

    def gather(self, value: T) -> list[T]:
        """Every process's value, by rank, on process 0; nothing elsewhere."""
        if self.world_size == 1:
            return [value]
        values: list[T] | None = [value] * self.world_size if self.is_main else None
        torch_dist.gather_object(value, values, dst=0)
        return values or []

    def check_same(self, what: str, description: str) -> None:
        """Refuse to go on unless every process has the same text ``description`` of ``what``."""
        if self.world_size == 1:
            return
        every = [description] * self.world_size
        torch_dist.all_gather_object(every, description)
        if others := [rank for rank, found in enumerate(every) if found != every[0]]:
            problem = f"process {others[0]} has another {what} than process 0"
            raise ConfigError(f"{problem}: start all processes with the same command on the same files.")


@contextmanager
def this_process(device: DeviceName = "auto", parallel: Parallel = "auto") -> Iterator[Process]:
    """Join the group that torchrun announced, or run alone; a group that the program has joined already is kept."""
    here, has_joined = _device(device), torch_dist.is_initialized()
    world_size = torch_dist.get_world_size() if has_joined else _world_size_of_environment()
    if world_size > 1 and parallel == "none":
        problem = f'{world_size} processes were started but parallel is "none": they would train unsynchronised copies'
        raise ConfigError(f"{problem}; set --parallel ddp or fsdp, or start one process.")
    if not has_joined and world_size == 1:
        yield Process(0, 1, here)
        return
    if not has_joined:
        _join(here)
    _collect_at_exit()
    try:
        yield Process(torch_dist.get_rank(), torch_dist.get_world_size(), here)
    finally:
        if not has_joined:
            torch_dist.destroy_process_group()


def uses_bfloat16(precision: Precision, device: torch.device) -> bool:
    """Whether matrix products are in bfloat16: where asked for, or where it pays."""
    pays = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return precision == "bfloat16" or (precision == "auto" and pays)


def has_fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 faster than float32: by its own instructions."""
    features: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # since 2.8
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """The context for forward passes."""
    return torch.autocast(device.type, torch.bfloat16, enabled=uses_bfloat16(precision, device))


@cache
def _collect_at_exit() -> None:
    """Free what trainings left in circles of references before the interpreter ends.

    A group's threads end with the last reference to it, and DDP keeps one. Threads that need the interpreter when it is
    gone abort a process whose work is done (pytorch#179291).
    """
    atexit.register(gc.collect)


def _world_size_of_environment() -> int:
    text = os.environ.get("WORLD_SIZE", "1")
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"WORLD_SIZE is '{text}': start with torchrun, or unset it.")
    return int(text)


def _join(device: torch.device) -> None:
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]:
        problem = f"WORLD_SIZE is {os.environ['WORLD_SIZE']} but {missing[0]} is not set"
        remedy = "start with torchrun, or unset WORLD_SIZE."
        raise ConfigError(f"{problem}, so there is no process group to join: {remedy}")
    try:
        store, rank, world_size = next(rendezvous("env://", timeout=_TIMEOUT))
        # torchrun keeps its store over a restart, with the addresses of dead processes in it.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        torch_dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=PrefixStore(f"attempt-{attempt}", store),
            rank=rank,
            world_size=world_size,
            timeout=_TIMEOUT,
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"the processes cannot join a group: {reason}") from error


def _device(name: DeviceName) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is cuda but torch finds no GPU: use --device cpu.")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device
