"""How many threads compute: a training that waits for its own threads goes on with fewer.

On a shared machine the threads of a step wait for the one whose core another process has, and a small model gains
nothing from a second one. Neither shows in processor time (a waiting thread may spin), so rates are compared: now and
then some steps run with half or twice the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import torch

from litebert.predict.backend import Threads, num_threads

SLICE_S = 0.25
SLICES = 3  # slices of each number of threads in a trial, taking turns
FIRST_TRIAL_S = 3.0
LONGEST_PAUSE_S = 120.0
SHARE_OF_TRIALS = 0.04  # most of the time that may pass in trials
FEWER_FROM, MORE_FROM = 0.98, 1.10
"""Rate, compared with that of the usual number, from which fewer or more threads are taken."""
HOPELESS = 0.8
"""A rival below this share of the usual rate in the first turn is given up: with a large model a step may take many
seconds, and as many again with half the threads."""
DROP = 0.7  # a rate below this share of that in the last trial calls for another one


@contextmanager
def thread_limit(threads: Threads) -> Iterator[None]:
    """Compute with this many threads inside the `with`, as before after it."""
    before, wanted = torch.get_num_threads(), num_threads(threads)
    if wanted is not None:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class ThreadWatch:
    """Finds the number of threads, up to ``limit``, with the highest rate, from steps as they come.

    ``use`` sets the number for the steps that follow; ``tell`` hears that another number than before has become the
    usual one.
    """

    def __init__(self, limit: int, use: Callable[[int], None], tell: Callable[[int], None] = lambda n: None) -> None:
        self.limit, self.usual = limit, limit
        self._use, self._tell = use, tell
        self._rival: int | None = None  # the number that is tried; None between trials
        self._last_was_fewer = False
        self._slices: list[float] = []  # rates in a trial: usual, rival, usual, rival...
        self._work, self._seconds = 0.0, 0.0  # of the slice
        self._known = 0.0  # rate of the usual number in the last trial
        self._pause_s = self._wait_s = FIRST_TRIAL_S
        self._trial_s = 0.0

    def note(self, work: float, seconds: float) -> None:
        """Take in a step: how much it did, in any unit, and how long it took."""
        if self.limit == 1:
            return
        self._work, self._seconds = self._work + work, self._seconds + seconds
        self._wait_s -= seconds
        if self._seconds < SLICE_S:
            return
        rate, took = self._work / self._seconds, self._seconds
        self._work = self._seconds = 0.0
        if self._rival is not None:
            self._go_on(self._rival, rate, took)
        elif self._wait_s <= 0.0 or rate < DROP * self._known:
            fewer, more = self.usual // 2, min(2 * self.usual, self.limit)
            go_down = fewer >= 1 and (self.usual == self.limit or not self._last_was_fewer)
            self._last_was_fewer = go_down
            self._rival, self._slices, self._trial_s = fewer if go_down else more, [], 0.0

    def _go_on(self, rival: int, rate: float, took: float) -> None:
        """Take in a slice of a trial; at its end the better number becomes the usual one."""
        self._slices.append(rate)
        self._trial_s += took
        is_hopeless = len(self._slices) == 2 and rate < HOPELESS * self._slices[0]
        if len(self._slices) < 2 * SLICES and not is_hopeless:
            self._use(rival if len(self._slices) % 2 else self.usual)
            return
        self._known, rival_rate = median(self._slices[0::2]), median(self._slices[1::2])
        self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
        if rival_rate >= (FEWER_FROM if rival < self.usual else MORE_FROM) * self._known:
            self.usual, self._known, self._pause_s = rival, rival_rate, FIRST_TRIAL_S
            self._tell(self.usual)
        self._use(self.usual)
        self._rival = None
        self._wait_s = max(self._pause_s, self._trial_s / SHARE_OF_TRIALS)
