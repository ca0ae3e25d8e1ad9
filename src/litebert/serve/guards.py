"""Middleware: size limit, slow headers and bodies, key, metrics and access log."""

from __future__ import annotations

import asyncio
import hmac
import time
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from litebert.serve.telemetry import AccessLog, Metrics

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})
"""Reachable without the key: the pages, which hold no data, and what a supervisor asks."""

_CLIENT_LEFT = 499  # nginx's number for it


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
        await self.app(scope, _replay(body, receive), send)


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


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive that gives the body once, then what the connection says."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
