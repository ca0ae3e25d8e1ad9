"""Engines: where raw text is turned into parts, in this process, in worker processes, or on Ray."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for_sentinel
from typing import Any, TypeVar

from litebert.common.errors import ConfigError, DataError, needs
from litebert.common.signals import interrupts_held
from litebert.data.corpus.config import EngineName
from litebert.data.corpus.ingest import RawPart
from litebert.data.corpus.parts import PartSettings, build_part

T = TypeVar("T")
Results = Generator[tuple[RawPart, bytes], None, None]  # in any order; to be closed if not read to the end

_QUEUED_PER_WORKER = 2  # Raw parts on the way to a worker: enough to keep it busy, few enough to bound memory.


def build_parts(raws: Iterable[RawPart], settings: PartSettings, engine: EngineName, workers: int | None) -> Results:
    """Yield each raw part with the finished one."""
    if engine == "ray":
        yield from on_ray(raws, settings, workers)
    elif (workers or num_cores()) == 1:
        yield from ((raw, build_part(raw, settings)) for raw in raws)
    else:
        yield from _in_processes(raws, settings, workers or num_cores())


def num_cores() -> int:
    """Return the cores that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_ray(raw_parts: Iterable[RawPart], settings: PartSettings, workers: int | None) -> Results:
    """Let a Ray cluster do the work; its nodes need litebert, but neither input nor shared disk."""
    with joined_ray(workers) as ray:
        function, shared_settings = ray.remote(build_part), ray.put(settings)

        def first(pending: Collection[object]) -> tuple[object, bytes]:
            done, _ = ray.wait(list(pending), num_returns=1)
            return done[0], ray.get(done[0])

        workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield from _queued(raw_parts, lambda raw: function.remote(raw, shared_settings), first, workers)


@contextmanager
def joined_ray(cpus: int | None = None) -> Iterator[Any]:
    """Ray with the cluster at ``RAY_ADDRESS``, else with one of ``cpus`` on this machine."""
    with needs("ray", "--engine ray", ConfigError):
        ray = importlib.import_module("ray")
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
    try:
        ray.init(address=address, num_cpus=cpus if address == "local" else None, **quiet)
    except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        problem = f"Ray cannot be reached at RAY_ADDRESS={address}: {reason.rstrip('.')}"
        remedy = "start a cluster with `ray start --head`, or unset RAY_ADDRESS to use this machine"
        raise ConfigError(f"{problem}; {remedy}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _in_processes(raw_parts: Iterable[RawPart], settings: PartSettings, workers: int) -> Results:
    """Let processes of this machine do the work; this one only reads and writes files."""
    # Spawned, not forked: a fork would inherit the lock file and whatever threads hold.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_follow_parent)

    def submit(raw: RawPart) -> Future[bytes]:
        with interrupts_held():  # the pool starts its processes here
            return pool.submit(build_part, raw, settings)

    def first(pending: Collection[Future[bytes]]) -> tuple[Future[bytes], bytes]:
        future = wait(pending, return_when=FIRST_COMPLETED).done.pop()
        return future, future.result()

    try:
        yield from _queued(raw_parts, submit, first, workers)
    except BrokenProcessPool:
        remedy = f"run the same command again, with fewer --workers than {workers}"
        raise DataError(f"a worker process died, perhaps out of memory; {remedy}: finished work is kept") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _queued(
    raw_parts: Iterable[RawPart],
    submit: Callable[[RawPart], T],
    first: Callable[[Collection[T]], tuple[T, bytes]],
    workers: int,
) -> Results:
    """Keep a few raw parts for each worker under way; yield them in the order they are done."""
    pending: dict[T, RawPart] = {}

    def finished() -> tuple[RawPart, bytes]:
        done, data = first(pending)
        return pending.pop(done), data

    for raw in raw_parts:
        pending[submit(raw)] = raw
        if len(pending) >= workers * _QUEUED_PER_WORKER:
            yield finished()
    while pending:
        yield finished()


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, and end when it is killed instead of waiting for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in worker processes only"

    def watch() -> None:
        wait_for_sentinel([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
