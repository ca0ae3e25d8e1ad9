"""Bodies of requests: JSON parsed without holding up other requests, in bounded time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MAX_VALUES = 65_536
"""Values in one body: what bounds the time of parsing and checking them, a few hundredths of a
second. Token arrays need the most."""

_MAX_FIELDS = 64
_LARGE_BYTES = 65_536

# A string (an unfinished one to the end, so that nothing is looked at twice), or what a value or
# its successor begins with.
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[,\[{]', re.DOTALL)


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
        if len(body) <= _LARGE_BYTES:
            return parse_body(body)
        return await asyncio.to_thread(parse_body, body)


def parse_body(body: bytes) -> object:
    """Parse JSON; half a surrogate pair, which JSON can write and no encoding can, is refused.

    Raises:
        JSONDecodeError: it is not JSON.
        HTTPException: it holds too many values or fields.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:  # texts may hold as many
        num_values = 0
        for found in _STRUCTURE.finditer(body):
            num_values += found[0][:1] != b'"'
            if num_values > MAX_VALUES:
                raise HTTPException(
                    422,
                    f"the body holds more than {MAX_VALUES:,} values; send fewer at once, and "
                    "texts in place of token ids",
                )
    try:
        parsed: object = from_json(body)
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", 0) from None
    if isinstance(parsed, dict) and len(parsed) > _MAX_FIELDS:
        raise HTTPException(422, f"the body has {len(parsed):,} fields; none takes so many")
    return parsed
