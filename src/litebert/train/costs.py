"""What training costs: arithmetic and memory by formula, the machine's speed by measuring."""

from __future__ import annotations

import time
from dataclasses import dataclass

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
    93
    """
    hidden, embedding = model.hidden_size, model.embedding_size
    blocks = (model.num_layers if layers is None else layers) * model.inner_group_num
    tokens = rows * length
    attention = 6 * hidden * hidden + 4 * length * hidden
    behind_attention = 2 * hidden * hidden + 4 * hidden * model.ffn
    # The last block runs behind its attention only where something is predicted.
    places = (blocks - 1) * tokens + min(tokens, predictions + rows)
    projection = 2 * embedding * hidden if model.has_projection else 0
    words = 2 * embedding * (hidden + model.vocab_size)
    return float(
        tokens * (blocks * attention + projection)
        + places * behind_attention
        + predictions * words
        + rows * 2 * hidden * hidden
    )


def step_flops(
    model: ModelConfig, rows: int, length: int, predictions: int, layers: int | None = None
) -> float:
    """Operations of forward and backward of one batch, without recomputation."""
    return BACKWARD_FACTOR * forward_flops(model, rows, length, predictions, layers)


@dataclass(frozen=True)
class Memory:
    """Bytes on one device; activations are an estimate.

    >>> Memory.of(ModelConfig(), 11_813_810, tokens=4096, predictions=614).weights
    47255240
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations

    @classmethod
    def of(
        cls,
        model: ModelConfig,
        parameters: int,
        tokens: int,
        predictions: int,
        *,
        shards: int = 1,
        activation_bytes: int = 4,
        recompute: bool = False,
        piece_elements: int | None = None,
    ) -> Memory:
        """Memory of a training step with AdamW or LAMB.

        Args:
            model: the shape.
            parameters: how many there are.
            tokens: of a micro-batch, padding included.
            predictions: masked positions of a micro-batch.
            shards: over how many devices weights, gradients and optimizer state are spread.
            activation_bytes: 4, or 2 under bfloat16.
            recompute: only the layers' inputs are kept (activation checkpointing).
            piece_elements: logits that the loss holds at a time; None: all of them.
        """
        blocks = model.num_layers * model.inner_group_num
        # Kept for the backward pass of a block: its input, q, k, v, the mixture and its projection,
        # two sums and two norms (10 H), and the feed-forward before and behind the activation.
        block = tokens * (10 * model.hidden_size + 2 * model.ffn) * activation_bytes
        kept = tokens * model.hidden_size * activation_bytes
        layers = blocks * kept + block if recompute else blocks * block
        logits = predictions * model.vocab_size
        if piece_elements is not None:
            logits = min(logits, max(piece_elements, model.vocab_size))
        words = 2 * logits * 4  # scores and their gradient
        share = -(-4 * parameters // shards)
        # A block that every layer uses is gathered once and stays for the whole step, and so do
        # its gradients until they are scattered: sharding saves the optimizer's state.
        gathered = 4 * parameters if shards > 1 else 0
        return cls(share + gathered, share + gathered, 2 * share, layers + words)


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
