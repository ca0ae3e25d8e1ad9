"""Engines: where raw text is turned into parts, in this process, in worker processes, or on Ray."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for_sentinel

from litebert.common.errors import ConfigError, DataError, install_command
from litebert.common.signals import interrupts_held
from litebert.data.corpus.ingest import RawPart
from litebert.data.corpus.parts import PartSettings, build_part

Results = Generator[tuple[RawPart, bytes], None, None]
"""Raw parts with the finished ones, in any order; to be closed if not read to the end."""

_QUEUED_PER_WORKER = 2
"""Raw parts on the way to a worker: enough to keep it busy, few enough to bound memory."""


def in_this_process(raw_parts: Iterable[RawPart], settings: PartSettings) -> Results:
    """Yield each raw part with the finished one, in order."""
    for raw in raw_parts:
        yield raw, build_part(raw, settings)


def in_processes(raw_parts: Iterable[RawPart], settings: PartSettings, workers: int) -> Results:
    """Let processes of this machine do the work; this one only reads and writes files."""
    # Spawned, not forked: a fork would inherit the lock file and whatever threads hold.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_follow_parent)
    pending: dict[Future[bytes], RawPart] = {}

    def finished() -> Iterator[tuple[RawPart, bytes]]:
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            yield pending.pop(future), future.result()

    try:
        for raw in raw_parts:
            with interrupts_held():  # the pool starts its processes here
                future = pool.submit(build_part, raw, settings)
            pending[future] = raw
            if len(pending) >= workers * _QUEUED_PER_WORKER:
                yield from finished()
        while pending:
            yield from finished()
    except BrokenProcessPool:
        raise DataError(
            "a worker process died, perhaps out of memory; run the same command again, "
            f"with fewer --workers than {workers}: finished work is kept"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, and end when it is killed instead of waiting for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in worker processes only"

    def watch() -> None:
        wait_for_sentinel([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def on_ray(raw_parts: Iterable[RawPart], settings: PartSettings, workers: int | None) -> Results:
    """Let a Ray cluster do the work: the one at ``RAY_ADDRESS``, else one on this machine.

    Text and parts travel through Ray, so the nodes need litebert but neither the input nor a
    shared disk.
    """
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError:
        raise ConfigError(
            f"--engine ray needs Ray, which is not installed; {install_command('ray')}"
        ) from None
    was_running = ray.is_initialized()
    if not was_running:
        address = os.environ.get("RAY_ADDRESS", "local")
        cpus = workers if address == "local" else None
        quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
        try:
            ray.init(address=address, num_cpus=cpus, **quiet)
        except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigError(
                f"Ray cannot be reached at RAY_ADDRESS={address}: {reason.rstrip('.')}; start a "
                "cluster with `ray start --head`, or unset RAY_ADDRESS to use this machine"
            ) from None
    pending: dict[object, RawPart] = {}

    def finished() -> tuple[RawPart, bytes]:
        done, _ = ray.wait(list(pending), num_returns=1)
        return pending.pop(done[0]), ray.get(done[0])

    try:
        workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        function, shared_settings = ray.remote(build_part), ray.put(settings)
        for raw in raw_parts:
            pending[function.remote(raw, shared_settings)] = raw
            if len(pending) >= workers * _QUEUED_PER_WORKER:
                yield finished()
        while pending:
            yield finished()
    finally:
        if not was_running:
            ray.shutdown()
