"""Connections: as many as the process can hold, slow ones in bounds, none cut off at the end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from litebert.common.errors import ConfigError
from litebert.serve.config import ServeConfig

_ACCEPTED_AT_ONCE = 64  # connections that the event loop takes from the listening socket before anything else
_RESERVED_FILES = 64 + _ACCEPTED_AT_ONCE  # beside the connections: models, logs, threads, what was just accepted
# How long a kept connection may ask once more when the server stops: the client cannot know yet
# that it does, and its next request may be on the way.
_LAST_REQUEST_S = 1.0
_LINGER_S = 0.5  # how long a closed one is read on: closing over unread bytes resets it


def connection_limit(wanted: int) -> int:
    """Raise the limit of open files as far as it may be; return how many connections it holds, at most ``wanted``."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return wanted
    given = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (sys.maxsize if limit == resource.RLIM_INFINITY else limit for limit in given)
    needed = wanted + _RESERVED_FILES
    if soft < needed:
        with suppress(OSError, ValueError):  # as it was, then
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), given[1]))
            soft = min(needed, hard)
    if soft <= _RESERVED_FILES:
        problem = f"the process may open {soft} files, and serving needs more than {_RESERVED_FILES}"
        raise ConfigError(f"{problem}; raise the limit (`ulimit -n`)")
    return min(wanted, soft - _RESERVED_FILES)


class TimedProtocol(H11Protocol):
    """uvicorn's connection, with time limits, and room made for new ones.

    uvicorn itself closes a connection that is silent after an answer; one that says nothing from
    the start, never ends its headers or never reads its answer it keeps. With a limit of 0 this one
    does too. When there are too many connections, the one that has kept us waiting longest goes.
    """

    def __init__(self, server: Server, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._owner = server
        self._closing: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request; if there are too many connections, close one."""
        super().connection_made(transport)
        oldest = next(iter(self._owner.waiting), None)
        if oldest is not None and len(self.connections) > self._owner.limit:
            del self._owner.waiting[oldest]
            oldest.transport.abort()
        self._watch()
        if self._owner.stopping:
            self.shutdown()

    def data_received(self, data: bytes) -> None:
        """Read on; the time ends when the headers are whole, and begins with the next ones."""
        if self._half_closed:
            return  # too late: it cannot be answered any more
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, or leave if there is to be none."""
        super().on_response_complete()
        self._note_waiting()
        if self._owner.stopping and not self.transport.is_closing():
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers with the connection."""
        self._forget()
        self.resume_writing()
        self._owner.waiting.pop(self, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a client that does not read its answer, but not forever."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def shutdown(self) -> None:
        """Stop: an answer under way is given (and says that it is the last), then one more."""
        if self.cycle is None or self.cycle.response_complete:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(_LAST_REQUEST_S, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close our side after silence; the client closes the other, or it is closed later."""
        if self.transport.is_closing() or self._half_closed:
            return
        if self.transport.get_write_buffer_size():
            self.transport.close()  # which sends what is left
            self._expect_reading()
            return
        self._half_closed = True
        self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)

    def _expect_reading(self, unsent: float = float("inf")) -> None:
        """Cut the client off if it reads nothing at all for as long as a request may take."""
        left = self.transport.get_write_buffer_size()
        if left >= unsent:
            self.transport.abort()
        elif left and self._owner.timeout_s:
            self._unread = self.loop.call_later(self._owner.timeout_s, self._expect_reading, left)

    def _watch(self) -> None:
        """Let the timer run if and only if no request is under way."""
        self._note_waiting()
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._closing is None and self._owner.timeout_s:
            self._closing = self.loop.call_later(self._owner.timeout_s, self.transport.close)

    def _note_waiting(self) -> None:
        """Take the place among those that keep us waiting, or give it up with a whole request."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self._owner.waiting.setdefault(self)
        else:
            self._owner.waiting.pop(self, None)

    def _forget(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None


class Server(uvicorn.Server):
    """uvicorn's server, for which being asked to stop is not a failure."""

    def __init__(self, app: FastAPI, config: ServeConfig) -> None:
        self.limit, self.timeout_s = config.max_connections, config.timeout_s
        self.stopping = False
        self.waiting: dict[TimedProtocol, None] = {}  # whose client has not sent a whole request, longest first
        super().__init__(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                ws="none",
                http=partial(TimedProtocol, self),  # type: ignore[arg-type]
                backlog=_ACCEPTED_AT_ONCE,
                limit_concurrency=config.max_connections + 1,  # uvicorn refuses from there on
                timeout_graceful_shutdown=max(1, round(config.drain_s)),
            )
        )
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept; more connections may queue in the kernel than are accepted at once."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(socket.SOMAXCONN)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let every connection finish; closing the port resets what queues there, so it is emptied right before."""
        self.stopping = True
        queued: list[socket.socket] = []
        for listener in sockets or ():
            with suppress(OSError):
                while True:
                    queued.append(listener.accept()[0])
        for server in self.servers:
            server.close()
        for connection in queued:
            protocol = partial(TimedProtocol, self, self.config, self.server_state, self.lifespan.state)
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; ``/ready`` says so on connections that are still open."""
        self._app.state.stopping = True
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully on a signal; uvicorn itself would then die of it."""
        signals = _known("SIGINT", "SIGTERM", "SIGHUP") - stray_signals()
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def stray_signals() -> set[signal.Signals]:
    """Return signals that would end the process though nobody asked it to stop.

    SIGHUP means that the terminal was closed, if there is one; without, others reload or rotate logs on it.
    """
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    return _known("SIGUSR1", "SIGUSR2", *([] if has_terminal else ["SIGHUP"]))


def _known(*names: str) -> set[signal.Signals]:
    """Return those of the signals that this system has; Windows has few."""
    return {number for number in signal.Signals if number.name in names}


def listen(config: ServeConfig) -> socket.socket:
    """Take the port before loading anything, so that a taken one is known at once."""
    try:
        family = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((config.host, config.port), family=family, backlog=512)
        # Connections inherit it. Otherwise the body of an answer waits 40 ms for the client to
        # confirm the headers: asyncio only sees to this for sockets that it makes itself.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {config.host}:{config.port} ({error.strerror or error}); choose another --port or --host"
        ) from None
