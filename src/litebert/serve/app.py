"""The HTTP server: the application, its errors, start and stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TextIO

from fastapi import Depends, FastAPI, params
from fastapi.datastructures import Default
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request

from litebert import __version__
from litebert.common.errors import CheckpointError, LitebertError
from litebert.common.progress import say
from litebert.serve import schemas as s
from litebert.serve.batcher import Batcher, QueueFullError
from litebert.serve.config import LIMITS, ServeConfig
from litebert.serve.connections import Server, connection_limit, listen, stray_signals
from litebert.serve.endpoints import Endpoints
from litebert.serve.guards import BoundedRoute, LimitBody, Observe, RequireKey, error_response
from litebert.serve.page import PAGE_FILES, STATIC, PageModels
from litebert.serve.service import CannotAnswerError, Service, UnknownModelError
from litebert.serve.telemetry import REQUEST_ID, LogStream, Metrics, log_to

KEY_VARIABLE = "LITEBERT_API_KEY"
Guards = Sequence[params.Depends]

_ERRORS: dict[int | str, dict[str, object]] = {
    status: {"model": s.ErrorResponse, "description": text}
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

_SAID = {"string_too_short": "the text is empty", "too_short": "the list is empty"}  # not what pydantic says

_PAGE_HEADERS = {
    # WebAssembly runs the model in the page; its code comes from here like the rest.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; "
    "img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def create_app(service: Service, config: ServeConfig, log: TextIO | LogStream | None = None) -> FastAPI:
    """Return the application around loaded models."""
    metrics = Metrics()
    batcher = Batcher(config.max_tokens, config.max_delay_ms / 1000, config.max_queue_tokens, metrics.batch)
    metrics.queued.set_function(lambda: batcher.queued_tokens)
    page_models = PageModels()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # For long texts and for reading answers; every thread keeps a heap of its own.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2, "text"))
        batcher.start()
        yield
        await batcher.drain()
        page_models.close()

    middleware = [Middleware(Observe, metrics=metrics, log=log)]
    if config.api_key is not None:
        # A key from a file often ends with a line break, which no header can carry.
        middleware.append(Middleware(RequireKey, key=config.api_key.strip()))
    is_full = partial(batcher.is_full, is_large=True)
    middleware.append(Middleware(LimitBody, config.max_body_bytes, config.timeout_s, is_full))
    app = FastAPI(
        title="litebert",
        version=__version__,
        description="Ask an ALBERT model: fill masks, judge order, classify, answer, embed.",
        lifespan=lifespan,
        middleware=middleware,
        docs_url=None,  # the page of FastAPI loads its code from the internet; ours does not
        redoc_url=None,
    )
    app.state.stopping, app.state.metrics = False, metrics
    app.router.route_class = BoundedRoute
    # RequireKey asks for the key; this says so in the OpenAPI document.
    guarded = [Depends(HTTPBearer(auto_error=False))] if config.api_key is not None else []
    _add_errors(app)
    _add_questions(app, Endpoints(service, batcher, config), guarded)
    _add_operations(app, service, batcher, config, guarded)
    _add_pages(app, service, page_models)
    return app


def serve(config: ServeConfig) -> None:
    """Load the models and serve until SIGTERM or SIGINT; running requests are finished first."""
    if config.api_key is None and KEY_VARIABLE in os.environ:
        config = replace(config, api_key=os.environ[KEY_VARIABLE])
    for number in stray_signals():
        signal.signal(number, signal.SIG_IGN)
    listener = listen(config)
    limit = connection_limit(config.max_connections)
    if limit < config.max_connections:
        wanted, config = config.max_connections, replace(config, max_connections=limit)
        say(f"litebert: {limit:,} connections, not {wanted:,}: the process may open no more files (ulimit -n)")
    service = Service.load(config)
    log = LogStream()
    app = create_app(service, config, log)
    log.on_drop = app.state.metrics.dropped.inc
    names = ", ".join(f"{m.name} ({m.predictor.backend.info.runtime})" for m in service.models)
    host, port = listener.getsockname()[:2]
    say(f"litebert: serving {names} on http://{f'[{host}]' if ':' in host else host}:{port}")
    log_to(log)
    # How long the event loop waits for a thread that is cutting texts; Python's default is 5 ms.
    sys.setswitchinterval(0.0005)
    Server(app, config).run(sockets=[listener])
    log.close()


def _add_questions(app: FastAPI, endpoints: Endpoints, guarded: Guards) -> None:
    """Add what models are asked."""
    for path, endpoint, summary in (
        ("/fill-mask", endpoints.fill_mask, "Likeliest words at each [MASK]"),
        ("/order", endpoints.order, "Do two sentences stand in their order?"),
        ("/classify", endpoints.classify, "Classes, labels or a number for texts"),
        ("/answer", endpoints.answer, "Answer a question from a passage"),
        ("/multiple-choice", endpoints.multiple_choice, "Choose among options"),
        ("/tag", endpoints.tag, "Tag each word of a text"),
        ("/rerank", endpoints.rerank, "Put texts in order for a query (TEI's shape)"),
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
            # Embeddings are written by the endpoint itself.
            response_model=Default(None) if path != "/v1/embeddings" else s.EmbeddingsResponse,
            response_model_exclude_none=path in ("/classify", "/rerank"),
            dependencies=guarded,
        )
    listed = partial(
        app.add_api_route, responses={status: _ERRORS[status] for status in (401, 404, 422)}, dependencies=guarded
    )
    listed("/v1/models", endpoints.models, summary="The loaded models (OpenAI's shape)")
    listed("/v1/models/{name}", endpoints.one_model, summary="A loaded model (OpenAI's shape)")


def _add_operations(app: FastAPI, service: Service, batcher: Batcher, config: ServeConfig, guarded: Guards) -> None:
    """Add what supervisors and dashboards ask."""

    @app.get("/health", summary="Is the process alive?")
    async def health() -> s.Status:
        return s.Status(status="ok")

    @app.get("/ready", summary="Are requests accepted?", responses={503: _ERRORS[503]})
    async def ready() -> s.Status:
        if app.state.stopping or not batcher.accepting:
            raise HTTPException(503, "the server is stopping")
        return s.Status(status="ready")

    asked = partial(app.get, dependencies=guarded, responses={401: _ERRORS[401]})

    @asked("/info", summary="The loaded models and the limits")
    async def info() -> s.InfoResponse:
        return s.InfoResponse(
            version=__version__,
            models=[model.describe() for model in service.models],
            limits={name: getattr(config, name) for name in LIMITS},
        )

    @asked("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse)
    async def prometheus() -> Response:
        return Response(app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI, service: Service, page_models: PageModels) -> None:
    """Add the playground, models that run in it, and the page about the interface."""

    @app.get("/", include_in_schema=False)
    async def playground() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers=_PAGE_HEADERS)

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> FileResponse:
        return FileResponse(STATIC / "docs.html", headers=_PAGE_HEADERS)

    @app.get("/here/{name}/{file}", include_in_schema=False)
    async def here(name: str, file: str) -> FileResponse:
        model = service.find("tokenize", name)
        if file not in PAGE_FILES:
            raise HTTPException(404, f"a page loads {', '.join(PAGE_FILES)}")
        made = await page_models.file(name, model.path, model.predictor.depth, file)
        return FileResponse(made, headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _add_errors(app: FastAPI) -> None:
    """Give every error the same shape."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        errors = error.errors()
        if errors[0]["type"] == "json_invalid":
            return error_response(400, "invalid_json", f"the body is not valid JSON: {errors[0]['ctx']['error']}")
        # Of the members of a union the one that got furthest: it says what is wrong with the third
        # text of a list, where another says that a list is not a text.
        worst = max(errors, key=lambda one: (len(one["loc"]), not one["type"].endswith("_type")))
        # "body", "text", "list[str]", 2: the name of a member of a union helps nobody.
        place = [*worst["loc"][1:2], *(part for part in worst["loc"][2:] if isinstance(part, int))]
        field, said = ".".join(map(str, place)), _SAID.get(worst["type"], str(worst["msg"]))
        return error_response(422, "invalid_request", f"{field}: {said}" if field else said)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        kind = "invalid_json" if error.status_code == 400 else "refused"
        return error_response(error.status_code, kind, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(LitebertError)
    async def unanswerable(request: Request, error: LitebertError) -> Response:
        if isinstance(error, QueueFullError):
            return error_response(429, "busy", str(error), {"Retry-After": str(error.retry_after_s)})
        if isinstance(error, UnknownModelError):
            return error_response(404, "unknown_model", str(error))
        if isinstance(error, CannotAnswerError):
            return error_response(409, "wrong_model", str(error))
        if isinstance(error, CheckpointError):
            raise error  # the model's file is at fault, not the request: answered with 500, logged
        return error_response(422, "invalid_request", str(error))

    @app.exception_handler(TimeoutError)
    async def too_slow(request: Request, error: TimeoutError) -> Response:
        return error_response(503, "timeout", "the answer took too long; try again", {"Retry-After": "1"})

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        text = f"the server failed; its log says why, under {REQUEST_ID.get()}"
        return error_response(500, "internal", text, {"X-Request-ID": REQUEST_ID.get()})
