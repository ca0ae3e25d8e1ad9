"""What the server tells its operators: Prometheus metrics and one JSON line per request."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one server; a registry of its own, so that two servers do not mix.

    Example:
        >>> metrics = Metrics()
        >>> metrics.request("/fill-mask", 200, seconds=0.02)
        >>> metrics.text().startswith(b"# HELP")
        True
    """

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self._requests = Counter(
            "litebert_requests", "Requests by path and status.", ["path", "status"], registry=own
        )
        timed = partial(Histogram, buckets=_SECONDS, registry=own)
        self._seconds = timed(
            "litebert_request_seconds", "Time from request to response.", ["path"]
        )
        self._batches = Histogram(
            "litebert_batch_inputs", "Inputs per model call.", buckets=_SIZES, registry=own
        )
        self._model_seconds = timed("litebert_model_seconds", "Time of a model call.")
        self._wait = timed(
            "litebert_queue_seconds", "Longest time in the queue of a batch's inputs."
        )
        self._tokens = Counter("litebert_tokens", "Tokens read by the models.", registry=own)
        self.active = Gauge("litebert_active_requests", "Requests under way.", registry=own)
        self.queued = Gauge("litebert_queued_tokens", "Tokens waiting.", registry=own)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def batch(
        self, num_inputs: int, num_tokens: int, seconds: float, longest_wait_s: float
    ) -> None:
        """Count a model call."""
        self._batches.observe(num_inputs)
        self._model_seconds.observe(seconds)
        self._wait.observe(longest_wait_s)
        self._tokens.inc(num_tokens)

    def text(self) -> bytes:
        """Return the metrics in Prometheus' format."""
        return generate_latest(self.registry)


@dataclass
class AccessLog:
    """Writes one JSON object a line for each request; texts are never logged."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)

    def write(self, method: str, path: str, status: int, seconds: float, client: str) -> None:
        """Log a finished request."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "method": method,
            "path": path,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "client": client,
        }
        print(json.dumps(line), file=self.stream, flush=True)
