"""Middleware and the route class: request ids, logging, the key, and bounds on bodies."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TextIO

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from litebert.serve.telemetry import REQUEST_ID, LogStream, Metrics, log_request

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})
"""Reachable without the key: the pages, which hold no data, and what a supervisor asks."""

_CLIENT_LEFT = 499  # nginx's number for it
_ID = re.compile(rb"[\w.:-]{1,64}", re.ASCII)
_LARGE_BYTES = 65_536
_MAX_LARGE_BODIES = 32  # requests with a larger one under way: what bounds their memory
MAX_VALUES = 65_536
"""Values in one body: what bounds the time of parsing and checking them, a few hundredths of a
second. Token arrays need the most."""
_MAX_FIELDS = 64
# A string (an unfinished one to the end, so that nothing is looked at twice), or what a value or
# its successor begins with.
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[,\[{]', re.DOTALL)


class ClientLeftError(Exception):
    """The client closed the connection before its answer was ready."""


def error_response(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error in the shape that all errors have."""
    # A message may quote the request, and JSON can write what no encoding can.
    printable = message.encode("utf-8", "replace").decode()
    return JSONResponse({"error": {"type": kind, "message": printable}}, status, headers)


@dataclass(frozen=True)
class Observe:
    """Counts and logs each request, whatever becomes of it."""

    app: ASGIApp
    metrics: Metrics
    log: TextIO | LogStream | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an HTTP request on and note its outcome."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = _CLIENT_LEFT
        started = time.monotonic()
        sent = dict(scope["headers"]).get(b"x-request-id", b"")
        REQUEST_ID.set(sent.decode() if _ID.fullmatch(sent) else secrets.token_hex(8))

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = REQUEST_ID.get()
                if scope["app"].state.stopping:
                    # The client must not send its next request on a connection that is closed.
                    headers["Connection"] = "close"
            await send(message)

        try:
            with self.metrics.active.track_inprogress(), suppress(ClientLeftError):
                await self.app(scope, receive, watch)
        except Exception:
            status = 500  # answered outside of here, by the handler for what nobody foresaw
            raise
        finally:
            seconds = time.monotonic() - started
            # The matched route, not the raw path: a scanner must not make endless labels.
            self.metrics.request(getattr(scope.get("route"), "path", "other"), status, seconds)
            if self.log is not None:
                log_request(self.log, scope, status, seconds)


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
        text = "this server needs a key; send the header `Authorization: Bearer KEY`"
        refused = error_response(401, "unauthorized", text, {"WWW-Authenticate": "Bearer"})
        await refused(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        if scope["path"] in OPEN_PATHS or scope["path"].startswith("/static/"):
            return True
        header: bytes = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, sent = header.partition(b" ")
        # Compared in constant time, so that the time taken tells nothing about the key.
        return scheme.lower() == b"bearer" and hmac.compare_digest(sent, self.key.encode())


@dataclass
class LimitBody:
    """Refuses bodies that are too large, too many at once or too slow (0: never) unparsed."""

    app: ASGIApp
    max_bytes: int
    timeout_s: float
    is_full: Callable[[], bool] = lambda: False  # whether a large request is refused anyway: then it is not read
    num_large: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body (it is small), then pass it on as one message."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        size = int(declared) if declared.isdigit() and len(declared) < 16 else self.max_bytes + 1
        body, more, is_large = bytearray(), True, False
        refused: JSONResponse | None = None
        try:
            try:
                async with asyncio.timeout(self.timeout_s or None):
                    while True:
                        expected = max(size, len(body))
                        refused = self._refusal(expected, is_large)
                        if refused is None and expected > _LARGE_BYTES and not is_large:
                            is_large = True
                            self.num_large += 1
                        if refused is not None or not more:
                            break
                        message = await receive()
                        if message["type"] == "http.disconnect":
                            return
                        body += message.get("body", b"")
                        more = message.get("more_body", False)
            except TimeoutError:
                refused = error_response(408, "timeout", "the body did not arrive in time", {"Connection": "close"})
            whole = [{"type": "http.request", "body": bytes(body), "more_body": False}]

            async def replay() -> Message:
                """Give the body once, then what the connection says."""
                return whole.pop() if whole else await receive()

            if refused is None:
                await self.app(scope, replay, send)
            else:
                await refused(scope, receive, send)
        finally:
            self.num_large -= is_large

    def _refusal(self, num_bytes: int, is_counted: bool) -> JSONResponse | None:
        if num_bytes > self.max_bytes:
            text = f"the body is larger than {self.max_bytes:,} bytes; send fewer texts at once"
            return error_response(413, "too_large", text)
        is_new = num_bytes > _LARGE_BYTES and not is_counted
        if is_new and (self.num_large >= _MAX_LARGE_BODIES or self.is_full()):
            text = "too many large requests are under way; try again in 1 s"
            return error_response(429, "busy", text, {"Retry-After": "1"})
        return None


class BoundedRoute(APIRoute):
    """A route whose requests parse their bodies with :func:`parse_body`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's own handler, for a request that parses differently."""
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return bounded


class _JsonRequest(Request):
    async def json(self) -> object:
        """Return the parsed body; a large one is parsed on another thread."""
        body = await self.body()
        return parse_body(body) if len(body) <= _LARGE_BYTES else await asyncio.to_thread(parse_body, body)


def parse_body(body: bytes) -> object:
    """Parse JSON (half a surrogate pair is none); an HTTPException says that it holds too many values or fields."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:  # texts may hold as many
        values = (found for found in _STRUCTURE.finditer(body) if found[0][:1] != b'"')
        if any(islice(values, MAX_VALUES, None)):
            least = f"the body holds more than {MAX_VALUES:,} values"
            raise HTTPException(422, f"{least}; send fewer at once, and texts in place of token ids")
    try:
        parsed: object = from_json(body)
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", 0) from None
    if isinstance(parsed, dict) and len(parsed) > _MAX_FIELDS:
        raise HTTPException(422, f"the body has {len(parsed):,} fields; no request takes that many")
    return parsed
