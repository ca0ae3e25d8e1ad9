"""Connections: room for new ones, clients that do not read, and an end without a reset."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.responses import Response

from litebert.common.errors import ConfigError
from litebert.serve.config import ServeConfig
from litebert.serve.connections import Server, connection_limit
from litebert.serve.guards import LimitBody, Observe
from litebert.serve.telemetry import Metrics

GET = b"GET /%s HTTP/1.1\r\nHost: here\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Stage:
    """A server with an endpoint that waits to be released, and its clients."""

    server: Server
    listener: socket.socket
    port: int
    release: asyncio.Event
    reached: int = 0
    opened: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, sent: bytes = b"") -> Streams:
        streams = await asyncio.open_connection("127.0.0.1", self.port)
        streams[1].write(sent)
        self.opened.append(streams[1])
        return streams

    async def status(self, path: str = "quick") -> int:
        reader, _ = await self.connect(GET % path.encode())
        return int((await reader.readline()).split()[1])


def on_stage(scenario: Callable[[Stage], Awaitable[None]], **settings: object) -> None:
    """Play a scenario with a server of its own."""
    config = ServeConfig(**settings)  # type: ignore[arg-type]

    async def play() -> None:
        app = FastAPI(
            middleware=[
                Middleware(Observe, metrics=Metrics(), log=None),
                Middleware(LimitBody, max_bytes=1_000_000, timeout_s=5.0),
            ]
        )
        app.state.stopping = False
        listener = socket.create_server(("127.0.0.1", 0))
        server = Server(app, config)
        stage = Stage(server, listener, listener.getsockname()[1], asyncio.Event())

        @app.get("/quick")
        async def quick() -> str:
            return "done"

        @app.get("/slow")
        async def slow() -> str:
            stage.reached += 1
            await stage.release.wait()
            return "done"

        @app.get("/large")
        async def large() -> Response:
            stage.reached += 1
            return Response(b"x" * 30_000_000)

        running = asyncio.create_task(server._serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            await asyncio.wait_for(scenario(stage), 60)
        finally:
            stage.release.set()
            for writer in stage.opened:
                writer.close()
            server.should_exit = True
            await running

    asyncio.run(play())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_beyond_the_limit_of_requests_under_way_comes_503() -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(2):
            await stage.connect(GET % b"slow")
        await until(lambda: stage.reached == 2)
        assert await stage.status() == 503
        stage.release.set()
        while await stage.status() != 200:
            pass

    on_stage(scenario, max_connections=2)


@pytest.mark.parametrize("sent", [b"", b"GET /qu", b"POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"])
def test_the_connection_that_keeps_us_waiting_longest_makes_room(sent: bytes) -> None:
    async def scenario(stage: Stage) -> None:
        working, _ = await stage.connect(GET % b"slow")
        await until(lambda: stage.reached == 1)
        idle = [await stage.connect(sent) for _ in range(30)]
        for _ in range(10):
            assert await stage.status() == 200
        with_end = [reader.at_eof() for reader, _ in idle]
        assert len(stage.server.server_state.connections) <= 4
        assert await idle[0][0].read() == b"", with_end
        stage.release.set()
        assert (await working.readline()).split()[1] == b"200"  # a request under way stays

    on_stage(scenario, max_connections=3)


def test_a_client_that_does_not_read_its_answer_is_cut_off() -> None:
    async def scenario(stage: Stage) -> None:
        with socket.create_connection(("127.0.0.1", stage.port)) as deaf:
            deaf.sendall(GET % b"large")
            await until(lambda: stage.reached == 1)
            await until(lambda: not stage.server.server_state.connections)

    on_stage(scenario, timeout_s=0.3)


def test_a_client_that_reads_slowly_gets_all_of_its_answer() -> None:
    async def scenario(stage: Stage) -> None:
        reader, _ = await stage.connect(GET % b"large")
        received = 0
        while received < 30_000_000:
            received += len(await reader.read(2_000_000))
            await asyncio.sleep(0.002)

    on_stage(scenario, timeout_s=0.3)


def test_an_answer_after_the_signal_says_that_it_is_the_last() -> None:
    async def scenario(stage: Stage) -> None:
        kept = [await stage.connect(GET % b"quick") for _ in range(5)]
        for reader, _ in kept:
            assert b"done" in await reader.readuntil(b'"done"')
        slow, _ = await stage.connect(GET % b"slow")
        await until(lambda: stage.reached == 1)
        stage.server.handle_exit(15, None)
        await until(lambda: not stage.server.servers[0].is_serving())
        for reader, writer in kept[1:]:
            writer.write(GET % b"quick")
            answer = await reader.read()
            assert b"connection: close" in answer.lower()
            assert answer.endswith(b'"done"')
        stage.release.set()
        assert (await slow.read()).endswith(b'"done"')
        assert await kept[0][0].read() == b"", "closed, and not reset"

    on_stage(scenario)


def test_connections_that_queue_when_the_port_closes_are_answered() -> None:
    async def scenario(stage: Stage) -> None:
        queued = [socket.create_connection(("127.0.0.1", stage.port)) for _ in range(20)]
        for client in queued:
            client.sendall(GET % b"quick")
        stage.server.handle_exit(15, None)
        stopping = asyncio.create_task(stage.server.shutdown([stage.listener]))
        for client in queued:
            answer = await asyncio.to_thread(client.recv, 1000)  # raises if it is reset
            assert answer.split()[1] == b"200"
            client.close()
        await stopping

    on_stage(scenario)


def test_large_bodies_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litebert.serve.guards._MAX_LARGE_BODIES", 1)
    large = b"POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n{"

    async def scenario(stage: Stage) -> None:
        _, first = await stage.connect(large)
        await asyncio.sleep(0.1)
        refused, _ = await stage.connect(large)
        assert (await refused.readline()).split()[1] == b"429"
        assert await stage.status() == 200
        first.close()
        await until(lambda: len(stage.server.server_state.connections) <= 2)

    on_stage(scenario)


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (1024, 1024, 896),
        (1024, 1500, 1372),
        (1024, 1_000_000, 2048),
        (65_536, 65_536, 2048),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 2048),
        (1024, resource.RLIM_INFINITY, 2048),
    ],
)
def test_the_limit_of_files_is_raised_as_far_as_it_may_be(
    soft: int, hard: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.append(pair))
    assert connection_limit(2048) == expected
    assert limits[-1][1] == hard
    assert limits[-1][0] in (resource.RLIM_INFINITY, soft, expected + 128)


def test_too_few_files_to_serve_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 64))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: None)
    with pytest.raises(ConfigError, match="ulimit -n"):
        connection_limit(2048)
