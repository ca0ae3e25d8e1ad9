"""Worker processes that prepare batches ahead, in the order of a single process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from litebert.common.errors import DataError, LitebertError
from litebert.common.processes import interrupts_held
from litebert.data.batches.example import Batch

if TYPE_CHECKING:
    from litebert.data.batches.loader import Loader


def iterate_with_workers(
    loader: Loader, start: int, stride: int, num_workers: int
) -> Iterator[Batch]:
    """Yield the batches at ``start``, ``start + stride``, ...; worker w makes every n-th of them.

    Each worker has a pipe and waits with a finished batch until it is read, so memory is bounded;
    when this process goes away, however it goes, the pipe breaks and the worker ends.
    """
    # Spawned, not forked: the parent may have threads (torch), and no worker holds another's pipe.
    context = multiprocessing.get_context("spawn")
    processes, connections = [], []
    try:
        for worker in range(num_workers):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(
                target=_work,
                args=(loader, sender, start + worker * stride, num_workers * stride),
                daemon=True,
                name=f"litebert-loader-{worker}",
            )
            with interrupts_held():
                process.start()
            sender.close()
            processes.append(process)
            connections.append(receiver)
        while True:
            for process, connection in zip(processes, connections, strict=True):
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    process.join()
                    raise DataError(
                        f"loader worker {process.name} ended with exit code {process.exitcode}; "
                        "free memory or use fewer workers"
                    ) from None
                if isinstance(message, Exception):
                    raise message
                yield message
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            process.terminate()
            process.join()


def _work(loader: Loader, sender: Connection, start: int, stride: int) -> None:
    # Signals to the whole process group (Ctrl-C, a launcher that stops) are for the parent alone.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for batch in loader.iterate(start, stride=stride):
            sender.send(batch)
    except (BrokenPipeError, ConnectionResetError):
        return
    except LitebertError as error:
        _report(sender, error)
    except Exception:  # any other failure is a bug: show where, in the parent
        _report(sender, RuntimeError(f"a loader worker failed:\n{traceback.format_exc()}"))


def _report(sender: Connection, error: Exception) -> None:
    try:
        sender.send(error)
    except (BrokenPipeError, ConnectionResetError):
        return
