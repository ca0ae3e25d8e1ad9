"""The serve command: models over HTTP, with a page to try them on."""

from __future__ import annotations

from typing import Annotated

from litebert.commands.flags import SETTINGS
from litebert.serve.config import ServeConfig


def serve(*, config: Annotated[ServeConfig | None, SETTINGS] = None) -> None:
    """Serve models over HTTP; open the address in a browser to try them.

    With ONNX folders no torch is needed. Stop with Ctrl-C or SIGTERM: running requests finish.

    Examples:
        litebert serve
        litebert serve --model exported/
        litebert serve --model exported/ --model sst2-int8/ --host 0.0.0.0 --port 8080
        LITEBERT_API_KEY=secret litebert serve --model exported/ --max-queue-tokens 32768
    """
    from litebert.serve.app import serve as serve_models

    serve_models(config or ServeConfig())
