"""How much arithmetic a batch costs, and how fast this machine multiplies matrices."""

from __future__ import annotations

import time

from litebert.model.config import ModelConfig

BACKWARD_FACTOR = 3
"""Forward and backward together cost three times the forward pass."""


def forward_flops(
    model: ModelConfig, rows: int, length: int, predictions: int, layers: int | None = None
) -> float:
    """Floating-point operations of one forward pass; a multiply-add counts as two.

    Args:
        model: the shape.
        rows: sequences in the batch.
        length: tokens of each, padding included.
        predictions: masked positions in the whole batch.
        layers: layers that run; default: all.

    >>> round(forward_flops(ModelConfig(), 1, 512, 77) / 1e9)
    97
    """
    hidden, embedding = model.hidden_size, model.embedding_size
    blocks = (model.num_layers if layers is None else layers) * model.inner_group_num
    tokens = rows * length
    per_token_and_block = 2 * (4 * hidden * hidden + 2 * hidden * model.ffn) + 4 * length * hidden
    projection = 2 * embedding * hidden if model.has_projection else 0
    words = 2 * embedding * (hidden + model.vocab_size)
    return float(
        tokens * (blocks * per_token_and_block + projection)
        + predictions * words
        + rows * 2 * hidden * hidden
    )


def step_flops(
    model: ModelConfig, rows: int, length: int, predictions: int, layers: int | None = None
) -> float:
    """Operations of forward and backward of one batch, without recomputation."""
    return BACKWARD_FACTOR * forward_flops(model, rows, length, predictions, layers)


def measured_gemm_rate(device: str = "cpu", seconds: float = 0.3) -> float:
    """Operations per second of large float32 matrix products here and now: the practical peak."""
    import torch

    size = 1024 if device == "cpu" else 4096
    left = torch.randn(size, size, device=device)
    right = torch.randn(size, size, device=device)
    best = float("inf")
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        before = time.perf_counter()
        product = left @ right
        product[0, 0].item()  # waits for a GPU
        best = min(best, time.perf_counter() - before)
    return 2.0 * size**3 / best
