"""The HTTP server: the application, its errors, start and stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request

from litebert import __version__
from litebert.common.errors import CheckpointError, ConfigError, LitebertError
from litebert.serve import schemas
from litebert.serve.batcher import Batcher, QueueFullError
from litebert.serve.config import LIMITS, ServeConfig
from litebert.serve.endpoints import Endpoints
from litebert.serve.guards import (
    AccessLog,
    LimitBody,
    Metrics,
    Observe,
    RequireKey,
    TimedProtocol,
    error_response,
)
from litebert.serve.service import CannotAnswerError, Service, UnknownModelError

STATIC = Path(__file__).parent / "static"
KEY_VARIABLE = "LITEBERT_API_KEY"

_ERRORS: dict[int | str, dict[str, object]] = {
    status: {"model": schemas.ErrorResponse, "description": text}
    for status, text in (
        (400, "The body is not JSON."),
        (401, "The key is missing or wrong."),
        (404, "No model of that name is loaded."),
        (408, "The body did not arrive in time."),
        (409, "No loaded model has the head for this question."),
        (413, "The body is too large."),
        (422, "A field is missing, wrong or too long, or the question cannot be answered."),
        (429, "The queue is full; the header Retry-After says when to come back."),
        (500, "The server failed; its log says why."),
        (503, "The server is stopping or full of connections, or the answer took too long."),
    )
}

_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def create_app(
    service: Service, config: ServeConfig, access_log: AccessLog | None = None
) -> FastAPI:
    """Return the application around loaded models."""
    metrics = Metrics()
    batcher = Batcher(
        max_tokens=config.max_tokens,
        max_delay_s=config.max_delay_ms / 1000,
        max_queue_tokens=config.max_queue_tokens,
        on_batch=metrics.batch,
    )
    metrics.queued.set_function(lambda: batcher.queued_tokens)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # For long texts and for reading answers; every thread keeps a heap of its own.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2, "text"))
        batcher.start()
        yield
        await batcher.drain()

    middleware = [Middleware(Observe, metrics=metrics, log=access_log)]
    if config.api_key is not None:
        # A key from a file often ends with a line break, which no header can carry.
        middleware.append(Middleware(RequireKey, key=config.api_key.strip()))
    middleware.append(
        Middleware(LimitBody, max_bytes=config.max_body_bytes, timeout_s=config.timeout_s)
    )
    app = FastAPI(
        title="litebert",
        version=__version__,
        description="Ask an ALBERT model: fill masks, judge order, classify, answer, embed.",
        lifespan=lifespan,
        middleware=middleware,
        docs_url=None,  # the page of FastAPI loads its code from the internet; ours does not
        redoc_url=None,
    )
    app.state.stopping = False
    _add_errors(app)
    _add_questions(app, Endpoints(service, batcher, config))
    _add_operations(app, service, batcher, metrics, config)
    _add_pages(app)
    return app


def serve(config: ServeConfig) -> None:
    """Load the models and serve until SIGTERM or SIGINT; running requests are finished first."""
    if config.api_key is None and KEY_VARIABLE in os.environ:
        config = replace(config, api_key=os.environ[KEY_VARIABLE])
    listener = _listen(config)
    service = Service.load(config)
    app = create_app(service, config, AccessLog())
    names = ", ".join(
        f"{model.name} ({model.predictor.backend.info.runtime})" for model in service.models
    )
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"litebert: serving {names} on http://{shown}:{port}", file=sys.stderr, flush=True)
    _Server(app, config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn's server, for which being asked to stop is not a failure."""

    def __init__(self, app: FastAPI, config: ServeConfig) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                access_log=False,
                log_level="warning",
                server_header=False,
                http=partial(TimedProtocol, config.timeout_s),  # type: ignore[arg-type]
                limit_concurrency=config.max_connections + 1,  # uvicorn refuses from there on
                timeout_graceful_shutdown=max(1, round(config.drain_s)),
            )
        )
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; ``/ready`` says so on connections that are still open."""
        self._app.state.stopping = True
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully on SIGINT and SIGTERM; uvicorn itself would then die of the signal."""
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listen(config: ServeConfig) -> socket.socket:
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
            f"cannot listen on {config.host}:{config.port} ({error.strerror or error}); "
            "choose another --port or --host"
        ) from None


def _add_questions(app: FastAPI, endpoints: Endpoints) -> None:
    """Add what models are asked."""
    for path, endpoint, summary in (
        ("/fill-mask", endpoints.fill_mask, "Likeliest words at each [MASK]"),
        ("/order", endpoints.order, "Do two sentences stand in their order?"),
        ("/classify", endpoints.classify, "Classes, labels or a number for texts"),
        ("/answer", endpoints.answer, "Answer a question from a passage"),
        ("/multiple-choice", endpoints.multiple_choice, "Choose among options"),
        ("/tag", endpoints.tag, "Tag each word of a text"),
        ("/v1/embeddings", endpoints.embeddings, "Vectors of texts (OpenAI's shape)"),
        ("/tokenize", endpoints.tokenize, "Pieces and ids of a text"),
        ("/layers", endpoints.layers, "How far each layer moves a text (Figure 1)"),
    ):
        app.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            summary=summary,
            responses=_ERRORS,
            response_model_exclude_none=path == "/classify",
        )


def _add_operations(
    app: FastAPI, service: Service, batcher: Batcher, metrics: Metrics, config: ServeConfig
) -> None:
    """Add what supervisors and dashboards ask."""

    @app.get("/health", summary="Is the process alive?")
    async def health() -> schemas.Status:
        return schemas.Status(status="ok")

    @app.get("/ready", summary="Are requests accepted?", responses={503: _ERRORS[503]})
    async def ready() -> schemas.Status:
        if app.state.stopping or not batcher.accepting:
            raise HTTPException(503, "the server is stopping")
        return schemas.Status(status="ready")

    @app.get("/info", summary="The loaded models and the limits", responses={401: _ERRORS[401]})
    async def info() -> schemas.InfoResponse:
        return schemas.InfoResponse(
            version=__version__,
            models=[model.describe() for model in service.models],
            limits={name: getattr(config, name) for name in LIMITS},
        )

    @app.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI) -> None:
    """Add the playground and the page about the interface."""

    @app.get("/", include_in_schema=False)
    async def playground() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers=_PAGE_HEADERS)

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> FileResponse:
        return FileResponse(STATIC / "docs.html", headers=_PAGE_HEADERS)

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _add_errors(app: FastAPI) -> None:
    """Give every error the same shape."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return error_response(400, "invalid_json", "the body is not valid JSON")
        # "body", "text", "str": the last part names a member of a union and helps nobody.
        field = ".".join(str(part) for part in first["loc"][1:2])
        message = f"{field}: {first['msg']}" if field else str(first["msg"])
        return error_response(422, "invalid_request", message)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        kind = "invalid_json" if error.status_code == 400 else "refused"
        headers = dict(error.headers) if error.headers else None
        return error_response(error.status_code, kind, str(error.detail), headers)

    @app.exception_handler(LitebertError)
    async def unanswerable(request: Request, error: LitebertError) -> Response:
        if isinstance(error, QueueFullError):
            headers = {"Retry-After": str(error.retry_after_s)}
            return error_response(429, "busy", str(error), headers)
        if isinstance(error, UnknownModelError):
            return error_response(404, "unknown_model", str(error))
        if isinstance(error, CannotAnswerError):
            return error_response(409, "wrong_model", str(error))
        if isinstance(error, CheckpointError):
            raise error  # the model's file is at fault, not the request: answered with 500, logged
        return error_response(422, "invalid_request", str(error))

    @app.exception_handler(TimeoutError)
    async def too_slow(request: Request, error: TimeoutError) -> Response:
        headers = {"Retry-After": "1"}
        return error_response(503, "timeout", "the answer took too long; try again", headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        return error_response(500, "internal", "the server failed; its log says why")
