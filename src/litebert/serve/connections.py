"""Connections that send no request in time are closed: they would hold their place for ever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """uvicorn's connection, with a time limit for the headers of each request.

    uvicorn itself closes a connection that is silent after an answer; one that says nothing from
    the start, or that never ends its headers, it keeps. With a limit of 0 this one does too.

    Example:
        >>> uvicorn.Config(app, http=timed_protocol(30.0))
    """

    timeout_s = 0.0
    _closing: asyncio.TimerHandle | None = None

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


def timed_protocol(seconds: float) -> type[TimedProtocol]:
    """Return the protocol with a time limit for headers; 0 for none."""

    class Limited(TimedProtocol):
        """With the limit of this server.

        Example:
            >>> uvicorn.Config(app, http=Limited)
        """

        timeout_s = seconds

    return Limited
