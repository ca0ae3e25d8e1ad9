"""SIGTERM and Ctrl-C as a request to save and leave; children that leave Ctrl-C to their parent."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SECONDS_UNTIL_IMPATIENT = 3.0


class StopRequest:
    """Whether a signal asked training to stop, and which one."""

    def __init__(self) -> None:
        self.signum = 0
        self._at = 0.0

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """Remember the first signal; a later Ctrl-C of someone impatient interrupts at once.

        torchrun passes Ctrl-C on to processes that got it from the terminal already: two at the same time are one.
        """
        impatient = self.signum and time.monotonic() - self._at > _SECONDS_UNTIL_IMPATIENT
        if impatient and signum == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.signum:
            self.signum, self._at = signum, time.monotonic()


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Listen to SIGTERM and SIGINT while the block runs (in the main thread, as Python demands)."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {signum: signal.signal(signum, stop.handle) for signum in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold SIGINT back while children start: they inherit the blocked signal, the parent gets it when the block ends.

    A child that ignores SIGINT only once its code runs would die with a traceback if Ctrl-C came while it imports.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
