"""Dynamic batching for the server: a bounded queue and one worker in front of the models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate, islice
from operator import attrgetter
from typing import TypeVar

from litebert.common.errors import LitebertError
from litebert.predict.batches import first_batch
from litebert.predict.predictor import Predictor
from litebert.predict.questions import Question
from litebert.tasks.base import Feature, Outputs

Result = TypeVar("Result")

_LEAST_COST = 16  # what an input counts in the queue: the bound is on work, and a call is work too


class QueueFullError(LitebertError):
    """The queue is full; the request was not accepted."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the server is busy; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


@dataclass(eq=False)
class _Unit:
    """One input of a request in the queue."""

    predictor: Predictor
    outputs: tuple[str, ...]
    feature: Feature
    cost: int
    turn: int  # when it is due, on a clock of tokens: after its request's earlier ones and its own
    is_large: bool  # whether its request has more than one batch
    said: asyncio.Future[Outputs]
    queued_at: float = field(default_factory=time.monotonic)


@dataclass
class Batcher:
    """Answers questions from many requests with few model calls.

    Requests share the model in equal parts (fair queueing by virtual finish times): an input is due after as many
    tokens as it and those before it in its request have, counted from when it came. The next one goes together with
    waiting inputs: of nearly its length if the model computes padding, of any length if it does not. A short delay lets
    a burst gather, but only when the last batch held several inputs: a lone client never waits. Requests of more than
    one batch have a queue bound of their own, so that a few large ones do not shut the door on the many small.
    """

    max_tokens: int
    max_delay_s: float
    max_queue_tokens: int
    on_batch: Callable[[int, int, float, float], None]  # inputs, tokens, seconds, the longest wait in seconds
    tokens_per_s: float = field(default=1000.0, init=False)
    _queue: list[_Unit] = field(default_factory=list, init=False)
    _building: list[int] = field(default_factory=lambda: [0, 0], init=False)
    _turn: int = field(default=0, init=False)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _worker: asyncio.Task[None] | None = field(default=None, init=False)
    _draining: bool = field(default=False, init=False)
    _last_size: int = field(default=1, init=False)

    def start(self) -> None:
        """Start the worker; needs a running event loop."""
        self._worker = asyncio.create_task(self._work(), name="batcher")

    @property
    def accepting(self) -> bool:
        """Whether new questions are taken."""
        return self._worker is not None and not self._worker.done() and not self._draining

    @property
    def queued_tokens(self) -> int:
        """Tokens of the inputs that wait."""
        return sum(unit.cost for unit in self._queue)

    async def drain(self) -> None:
        """Answer what is queued, then stop."""
        self._draining = True
        self._arrived.set()
        if self._worker is not None:
            await self._worker

    async def ask(self, predictor: Predictor, questions: Sequence[Question[Result]]) -> list[Result]:
        """Answer questions for the same outputs; cancelled, their inputs leave the queue."""
        features = [feature for question in questions for feature in question.features]
        costs = [max(_LEAST_COST, len(feature)) for feature in features]
        loop, outputs = asyncio.get_running_loop(), questions[0].outputs
        is_large = sum(costs) > self.max_tokens
        units = [
            _Unit(predictor, outputs, feature, cost, self._turn + total, is_large, loop.create_future())
            for feature, cost, total in zip(features, costs, accumulate(costs), strict=True)
        ]
        self._queue += units
        self._arrived.set()
        try:
            heard = await asyncio.gather(*(unit.said for unit in units))
        finally:  # of a request that failed, or that nobody waits for, nothing more is run
            for unit in units:
                unit.said.cancel()

        def read() -> list[Result]:
            parts = iter(heard)
            return [q.decode(list(islice(parts, len(q.features)))) for q in questions]

        # Reading an answer out of large outputs takes a while; other requests do not wait for it.
        return await loop.run_in_executor(None, read)

    @contextmanager
    def admission(self, num_tokens: int) -> Iterator[None]:
        """Count work of about ``num_tokens`` as waiting while it is built, or raise QueueFullError.

        What comes before the queue is full is taken whole: the queue passes its bound by one
        request at most, and a large one is not refused for as long as small ones keep coming.
        """
        is_large = num_tokens > self.max_tokens
        if self.is_full(is_large):
            # The whole seconds after which the present queue is probably done.
            raise QueueFullError(max(1, round(self.queued_tokens / self.tokens_per_s)))
        self._building[is_large] += num_tokens
        try:
            yield
        finally:
            self._building[is_large] -= num_tokens

    def is_full(self, is_large: bool) -> bool:
        """Whether requests of this size are refused."""
        queued = sum(unit.cost for unit in self._queue if unit.is_large == is_large)
        return self._draining or queued + self._building[is_large] >= self.max_queue_tokens

    async def _work(self) -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="model") as executor:
            while await self._wait_for_work():
                batch = self._take()
                if not batch:
                    continue
                started = time.monotonic()
                try:
                    said = await asyncio.get_running_loop().run_in_executor(executor, _run, batch)
                except Exception as error:  # the fault of one batch must not stop the worker
                    for unit in batch:
                        if not unit.said.done():
                            unit.said.set_exception(error)
                    continue
                for unit, outputs in zip(batch, said, strict=True):
                    if not unit.said.done():
                        unit.said.set_result(outputs)
                seconds = time.monotonic() - started
                num_tokens = sum(len(unit.feature) for unit in batch)
                self.tokens_per_s += 0.2 * (num_tokens / max(seconds, 1e-6) - self.tokens_per_s)
                self.on_batch(len(batch), num_tokens, seconds, started - min(unit.queued_at for unit in batch))

    async def _wait_for_work(self) -> bool:
        """Wait until something is queued; False when draining and nothing is left."""
        while not self._queue:
            if self._draining:
                return False
            self._arrived.clear()
            await self._arrived.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.max_delay_s):
                while len(self._queue) < self._last_size and not self._draining:
                    self._arrived.clear()
                    await self._arrived.wait()
        return True

    def _take(self) -> list[_Unit]:
        """Take the next batch out of the queue; inputs that nobody waits for are dropped."""
        left = [unit for unit in self._queue if not unit.said.done()]
        left.sort(key=attrgetter("turn"))  # stable: of equal turns the oldest
        batch: list[_Unit] = []
        if left:
            first, self._turn = left[0], left[0].turn
            same = [u for u in left if u.predictor is first.predictor and u.outputs == first.outputs]
            chosen = first_batch([len(unit.feature) for unit in same], self.max_tokens, first.predictor.pads)
            batch = [same[index] for index in chosen]
        taken = set(batch)
        self._queue = [unit for unit in left if unit not in taken]
        self._last_size = max(1, len(batch))
        return batch


def _run(batch: Sequence[_Unit]) -> list[Outputs]:
    """Run one batch; in the worker thread."""
    first = batch[0]
    said = first.predictor.run_batch([unit.feature for unit in batch], first.outputs)
    # What is said is part of the batch's array and would keep all of it.
    return [{name: values.copy() for name, values in outputs.items()} for outputs in said]
