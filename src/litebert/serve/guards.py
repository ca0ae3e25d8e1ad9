"""Middleware: size limit, slow headers and bodies, key, metrics (Prometheus) and access log."""

from __future__ import annotations

import asyncio
import hmac
import json
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})
"""Reachable without the key: the pages, which hold no data, and what a supervisor asks."""

_CLIENT_LEFT = 499  # nginx's number for it
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class ClientLeftError(Exception):
    """The client closed the connection before its answer was ready."""


def error_response(
    status: int, kind: str, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return an error in the shape that all errors have."""
    # A message may quote the request, and JSON can write what no encoding can.
    printable = message.encode("utf-8", "replace").decode()
    return JSONResponse(
        {"error": {"type": kind, "message": printable}}, status_code=status, headers=headers
    )


class Metrics:
    """Counters of one server; a registry of its own, so that two servers do not mix."""

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


@dataclass(frozen=True)
class Observe:
    """Counts and logs each request, whatever becomes of it."""

    app: ASGIApp
    metrics: Metrics
    log: AccessLog | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an HTTP request on and note its outcome."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = _CLIENT_LEFT
        started = time.monotonic()

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.metrics.active.inc()
        try:
            await self.app(scope, receive, watch)
        except ClientLeftError:
            pass  # nobody is there to be answered
        except Exception:
            status = 500  # answered outside of here, by the handler for what nobody foresaw
            raise
        finally:
            self.metrics.active.dec()
            seconds = time.monotonic() - started
            # The matched route, not the raw path: a scanner must not make endless labels.
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.request(path, status, seconds)
            if self.log is not None:
                client = scope["client"][0] if scope.get("client") else "-"
                self.log.write(scope["method"], scope["path"], status, seconds, client)


@dataclass(frozen=True)
class RequireKey:
    """Refuses requests without the bearer key, except those to the open paths."""

    app: ASGIApp
    key: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if it carries the key."""
        if scope["type"] != "http" or self._is_allowed(scope):
            await self.app(scope, receive, send)
            return
        response = error_response(
            401,
            "unauthorized",
            "this server needs a key; send the header `Authorization: Bearer KEY`",
            {"WWW-Authenticate": "Bearer"},
        )
        await response(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        if scope["path"] in OPEN_PATHS or scope["path"].startswith("/static/"):
            return True
        header: bytes = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, sent = header.partition(b" ")
        # Compared in constant time, so that the time taken tells nothing about the key.
        return scheme.lower() == b"bearer" and hmac.compare_digest(sent, self.key.encode())


@dataclass(frozen=True)
class LimitBody:
    """Refuses bodies that are too large or come too slowly, before they are parsed.

    A time limit of 0 is none.
    """

    app: ASGIApp
    max_bytes: int
    timeout_s: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body (it is small), then pass it on as one message."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        too_large = declared.isdigit() and int(declared) > self.max_bytes
        body, more = b"", not too_large
        try:
            async with asyncio.timeout(self.timeout_s or None):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self.max_bytes:
                        too_large, more = True, False
        except TimeoutError:
            closing = {"Connection": "close"}
            response = error_response(408, "timeout", "the body did not arrive in time", closing)
            await response(scope, receive, send)
            return
        if too_large:
            limit = f"the body is larger than {self.max_bytes:,} bytes; send fewer texts at once"
            await error_response(413, "too_large", limit)(scope, receive, send)
            return
        given = False

        async def replay() -> Message:
            """Give the body once, then what the connection says."""
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)


class TimedProtocol(H11Protocol):
    """uvicorn's connection, with a time limit for the headers of each request.

    uvicorn itself closes a connection that is silent after an answer; one that says nothing from
    the start, or that never ends its headers, it keeps. With a limit of 0 this one does too.
    """

    def __init__(self, timeout_s: float, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timeout_s = timeout_s
        self._closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on; the time ends when the headers are whole, and begins with the next ones."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer with the connection."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Let the timer run if and only if no request is under way."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._closing is None and self.timeout_s:
            self._closing = self.loop.call_later(self.timeout_s, self.transport.close)

    def _forget(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
