"""Ask a model folder questions from Python: batched by length, answered in input order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from litebert.common.batches import batches_by_tokens
from litebert.common.errors import CheckpointError, InputError
from litebert.serve.backend import Backend, Runtime, open_backend
from litebert.serve.features import Feature, FloatArray, Row, pad, split
from litebert.serve.operations import Embed, FillMask, Operation, Order, Pooling
from litebert.serve.results import FilledText, SentenceOrder
from litebert.text.tokenizer import Tokenizer

Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULT_MAX_TOKENS = 4096
"""Padded tokens of one batch: enough to fill two cores, few enough to stay in cache."""

_WINDOW_TOKENS = 65_536
"""Tokens that are sorted by length together when a stream is predicted: bounds the memory."""


class Predictor:
    """A loaded model with its tokenizer.

    Example:
        >>> predictor = Predictor.load("runs/tiny/model")
        >>> predictor.fill_mask(["Paris is the [MASK] of France."])[0].masks[0][0].token
        'capital'
    """

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        max_length: int,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        depth: int | None = None,
    ) -> None:
        self.backend, self.tokenizer = backend, tokenizer
        self.max_length, self.max_tokens, self.depth = max_length, max_tokens, depth

    @classmethod
    def load(
        cls,
        folder: Path | str,
        runtime: Runtime = "auto",
        threads: int | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        depth: int | None = None,
    ) -> Predictor:
        """Load a model folder (torch) or an ONNX folder (onnxruntime, no torch needed).

        Args:
            folder: the model folder.
            runtime: ``auto`` takes the ONNX file if there is one.
            threads: processor threads; None lets the runtime decide.
            max_tokens: padded tokens of one batch.
            depth: repeats of the shared block; None runs all. Needs a model trained for it.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise CheckpointError(f"model folder {folder} does not exist")
        backend = open_backend(folder, runtime, threads)
        _check_depth(depth, backend.info.max_depth)
        return cls(backend, Tokenizer.load(folder), backend.info.max_length, max_tokens, depth)

    def fill_mask(self, texts: Sequence[str], top_k: int = 5) -> list[FilledText]:
        """Return the likeliest words at each ``[MASK]`` of each text."""
        return self.run(FillMask(self.tokenizer, self.max_length, top_k), texts)

    def order(self, pairs: Sequence[tuple[str, str]]) -> list[SentenceOrder]:
        """Return the probability that each pair stands in its original order."""
        return self.run(Order(self.tokenizer, self.max_length), pairs)

    def embed(self, texts: Sequence[str], pooling: Pooling = "mean") -> FloatArray:
        """Return one vector per text; float32 [len(texts), H]."""
        return np.stack(self.run(Embed(self.tokenizer, self.max_length, pooling), texts))

    def run(self, operation: Operation[Item, Result], items: Sequence[Item]) -> list[Result]:
        """Answer many items; results are in input order whatever the batches."""
        return list(self.stream(operation, items))

    def stream(self, operation: Operation[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        """Answer items as they come, in order, in bounded memory.

        Items are collected up to a window of tokens, sorted by length inside it, and answered.
        """
        window: list[tuple[Item, list[Feature]]] = []
        tokens = 0
        for item in items:
            features = operation.features(item)
            window.append((item, features))
            tokens += sum(map(len, features))
            if tokens >= _WINDOW_TOKENS:
                yield from self._answer(operation, window)
                window, tokens = [], 0
        yield from self._answer(operation, window)

    def _answer(
        self, operation: Operation[Item, Result], window: Sequence[tuple[Item, list[Feature]]]
    ) -> Iterator[Result]:
        rows = self.rows([f for _, features in window for f in features], operation.outputs)
        start = 0
        for item, features in window:
            stop = start + len(features)
            yield operation.decode(item, features, rows[start:stop])
            start = stop

    def rows(self, features: Sequence[Feature], outputs: Sequence[str]) -> list[Row]:
        """Run the model over features in batches of similar length; rows in input order."""
        self.require(outputs)
        rows: dict[int, Row] = {}
        lengths = [len(feature) for feature in features]
        for batch in batches_by_tokens(lengths, self.max_tokens):
            members = [features[index] for index in batch]
            inputs = pad(members, self.tokenizer.pad_id, self.depth)
            computed = self.backend.run(inputs, outputs)
            rows.update(zip(batch, split(members, computed), strict=True))
        return [rows[index] for index in range(len(features))]

    def require(self, outputs: Sequence[str]) -> None:
        """Raise InputError if the model has no head for these outputs."""
        missing = [name for name in outputs if name not in self.backend.info.outputs]
        if missing:
            raise InputError(
                f"this model is for {self.backend.info.head} and has no {missing[0]}; "
                "choose a model with the head for this question"
            )


def _check_depth(depth: int | None, max_depth: int | None) -> None:
    if depth is None:
        return
    if max_depth is None:
        raise InputError(f"--depth {depth}: this model cannot change its depth; leave it out")
    if not 1 <= depth <= max_depth:
        raise InputError(f"--depth {depth} is outside 1 to {max_depth}")
