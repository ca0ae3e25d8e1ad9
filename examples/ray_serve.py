"""Serve a model from many processes and machines with Ray Serve: replicas, batches, restarts.

    python examples/ray_serve.py MODEL --replicas 4      # on this machine, or in a Ray cluster
    curl localhost:8000/predict -d '{"text": "Open a new window."}'

Each replica holds a `Predictor`, takes what waits (64 records at most, for 5 ms) and
cuts it into batches by a budget of padded tokens (--tokens), as everywhere in litebert. Running it
again with another MODEL restarts one replica after the other: the address goes on answering.
Needs `pip install 'ray[serve]'`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from ray import serve
from starlette.requests import Request

from litebert import Predictor, answer_rows

Record = dict[str, object]


@serve.deployment
class Model:
    """One replica."""

    def __init__(self, folder: str, tokens: int) -> None:
        self.predictor = Predictor.load(folder, threads=1, max_tokens=tokens)

    @serve.batch(max_batch_size=64, batch_wait_timeout_s=0.005)
    async def answer(self, records: list[Record]) -> list[Record]:
        """Answer what waits together; a bad record does not cost the others their answers."""
        rows = enumerate(records, start=1)  # answers come in the rows' order
        return list(answer_rows(self.predictor, None, rows))

    async def __call__(self, request: Request) -> Record:
        """Answer a request over HTTP."""
        return await self.answer(await request.json())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=2048, help="padded tokens of a batch")
    options = parser.parse_args()
    deployment: Any = Model  # ray's decorators hide what they make of a class
    bound = deployment.options(num_replicas=options.replicas).bind(options.model, options.tokens)
    serve.run(bound, name="litebert", route_prefix="/predict")
    time.sleep(1e9)
