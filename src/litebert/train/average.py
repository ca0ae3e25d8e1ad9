"""A running average of the weights: steadier than the last ones, kept beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


class WeightAverage:
    """``average = d * average + (1 - d) * weights`` after every step, with d up to ``decay``.

    Sharded weights have sharded averages. Make it when the weights are those of the start, or restored; give it back
    what a checkpoint held by copying into ``tensors``.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._weights = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
        self.tensors: dict[str, Tensor] = {n: p.clone() for n, p in self._weights.items()}

    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1; early steps count for more."""
        share = 1.0 - min(self.decay, step / (step + 10))
        for name, weight in self._weights.items():
            self.tensors[name].lerp_(weight, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While the block runs, the model holds the average."""
        trained = {name: weight.clone() for name, weight in self._weights.items()}
        self._put(self.tensors)
        try:
            yield
        finally:
            self._put(trained)

    def _put(self, tensors: dict[str, Tensor]) -> None:
        for name, weight in self._weights.items():
            weight.copy_(tensors[name])
