"""What the server says about itself: Prometheus metrics, and logs that never make it wait."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest
from starlette.types import Scope

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="-")  # of the request that is being answered
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_MAX_PATH = 200  # characters of it in the log: entries are bounded in size too


class Metrics:
    """Counters of one server; a registry of its own, so that two servers do not mix."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        counter = partial(Counter, namespace="litebert", registry=own)
        gauge = partial(Gauge, namespace="litebert", registry=own)
        timer = partial(Histogram, namespace="litebert", registry=own, buckets=_SECONDS)
        self._requests = counter("requests", "Requests by path and status.", ["path", "status"])
        self._seconds = timer("request_seconds", "Time from request to response.", ["path"])
        self._batches = timer("batch_inputs", "Inputs per model call.", buckets=_SIZES)
        self._model_seconds = timer("model_seconds", "Time of a model call.")
        self._wait = timer("queue_seconds", "Longest time in the queue of a batch's inputs.")
        self._tokens = counter("tokens", "Tokens read by the models.")
        self.active = gauge("active_requests", "Requests under way.")
        self.queued = gauge("queued_tokens", "Tokens waiting.")
        self.dropped = counter("dropped_log_lines", "Log entries that nobody read in time.")

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def batch(self, num_inputs: int, num_tokens: int, seconds: float, longest_wait_s: float) -> None:
        """Count a model call."""
        self._batches.observe(num_inputs)
        self._model_seconds.observe(seconds)
        self._wait.observe(longest_wait_s)
        self._tokens.inc(num_tokens)

    def text(self) -> bytes:
        """Return the metrics in Prometheus' format."""
        return generate_latest(self.registry)


class LogStream:
    """Log entries for a file descriptor, written by a thread of their own.

    A pipe whose reader stopped blocks whoever writes to it: here the thread alone. Entries beyond
    a bound are dropped and counted; the next line that gets through is followed by their number.
    """

    def __init__(self, descriptor: int = 2, max_entries: int = 10_000) -> None:
        self.on_drop: Callable[[], object] = lambda: None
        self._descriptor = descriptor
        self._entries: queue.Queue[str | None] = queue.Queue(max_entries)
        self._num_dropped = 0
        # A daemon: a reader that never reads again must not keep the process.
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Leave an entry to the thread, or drop it; never waits."""
        try:
            self._entries.put_nowait(text)
        except queue.Full:
            self._num_dropped += 1
            self.on_drop()

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what is left, if the reader takes it in time."""
        try:
            self._entries.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (entry := self._entries.get()) is not None:
            if num_dropped := self._num_dropped:
                self._num_dropped -= num_dropped
                entry += json.dumps({"time": _now(), "dropped_log_lines": num_dropped}) + "\n"
            content = entry.encode("utf-8", "backslashreplace")
            try:
                while content:
                    content = content[os.write(self._descriptor, content) :]
            except OSError:  # the reader went away
                self.on_drop()


def log_to(stream: LogStream) -> None:
    """Send what libraries log, tracebacks and warnings too, with the request it came up in."""

    def with_id(record: logging.LogRecord) -> bool:
        record.request_id = REQUEST_ID.get()
        return True

    handler = logging.StreamHandler(stream)
    handler.addFilter(with_id)
    form = "%(levelname)s [%(request_id)s] %(message)s"
    logging.basicConfig(level="WARNING", format=form, handlers=[handler], force=True)
    logging.captureWarnings(True)


def log_request(log: TextIO | LogStream, scope: Scope, status: int, seconds: float) -> None:
    """Write one line of JSON about a finished request; texts are never logged."""
    line = {
        "time": _now(),
        "id": REQUEST_ID.get(),
        "method": scope["method"],
        "path": scope["path"][:_MAX_PATH],
        "status": status,
        "ms": round(seconds * 1000, 1),
        "client": scope["client"][0] if scope.get("client") else "-",
    }
    log.write(json.dumps(line) + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
