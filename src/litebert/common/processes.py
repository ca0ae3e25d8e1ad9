"""Child processes that leave Ctrl-C to their parent, from their first instruction on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold SIGINT back while children start: they inherit the blocked signal.

    A child that ignores SIGINT only once its code runs would still die with a traceback if Ctrl-C
    came while it imports. The parent gets a held signal when the block ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
