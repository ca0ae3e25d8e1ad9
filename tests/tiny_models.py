"""Tiny models of every head with random weights, for the tests of export and serving."""

from __future__ import annotations

from pathlib import Path

from litebert.model.config import ModelConfig
from litebert.model.head_table import Head

HEADS: tuple[Head, ...] = (
    "encoder",
    "pretraining",
    "masked_lm",
    "classification",
    "regression",
    "multiple_choice",
    "token_classification",
    "span",
    "squad2",
)
TINY = ModelConfig(vocab_size=1000, embedding_size=16, hidden_size=32, num_heads=2, num_layers=3, max_positions=64)
LABELS = ("O", "B-NAME", "I-NAME")


def random_model_folder(folder: Path, head: Head, tokenizer_dir: Path | None, config: ModelConfig = TINY) -> Path:
    """Write a model whose biases and norms are random too, so that a wrong name shows."""
    import torch

    from litebert.interop.hf import build_model, save_model

    generator = torch.Generator().manual_seed(7)
    model = build_model(config, head, 3, generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    labelled = head in ("classification", "token_classification")
    save_model(
        model,
        folder,
        tokenizer_dir,
        head="masked_lm" if head == "masked_lm" else None,
        labels=LABELS if labelled else None,
    )
    return folder
