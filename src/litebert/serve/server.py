"""The HTTP server: endpoints, errors, start and stop."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest

from litebert import __version__
from litebert.common.errors import LitebertError
from litebert.serve import questions
from litebert.serve import schemas as s
from litebert.serve.batching import Batcher, QueueFullError
from litebert.serve.config import ServeConfig
from litebert.serve.guards import LimitBody, Observe, RequireKey, error_response
from litebert.serve.predictor import Predictor
from litebert.serve.questions import Question
from litebert.serve.results import LayerPath, SentenceOrder
from litebert.serve.service import CannotAnswerError, Service, UnknownModelError
from litebert.serve.telemetry import AccessLog, Metrics
from litebert.tasks.spans import SpanForm

Result = TypeVar("Result")

STATIC = Path(__file__).parent / "static"
KEY_VARIABLE = "LITEBERT_API_KEY"

_LONG_TEXT_CHARACTERS = 4000
"""Longer texts are cut into pieces on another thread, so that other requests do not wait."""

_ERRORS: dict[int | str, dict[str, object]] = {
    status: {"model": s.ErrorResponse, "description": text}
    for status, text in (
        (400, "The body is not JSON."),
        (401, "The key is missing or wrong."),
        (404, "No model of that name is loaded."),
        (409, "No loaded model has the head for this question."),
        (413, "The body is too large."),
        (422, "A field is missing, wrong, too long, or cannot be answered."),
        (429, "The queue is full; see the header Retry-After."),
        (503, "The server is stopping, or the answer took too long."),
    )
}
