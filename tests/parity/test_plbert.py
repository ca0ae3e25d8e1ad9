"""A trained ALBERT encoder with transformers' names gives the outputs of two other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from litebert.common.files import write_json
from litebert.interop.hf import load_model

COMMAND = "pytest tests/parity/test_plbert.py"


def write_folder(shared: Path, folder: Path) -> None:
    """Put the weights into a folder as transformers would have written it."""
    folder.mkdir()
    with np.load(shared / "fixtures/checkpoints/plbert/weights.npz") as file:
        save_file({name: file[name] for name in file.files}, folder / "model.safetensors")
    config = {
        "architectures": ["AlbertModel"],
        "model_type": "albert",
        "vocab_size": 178,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "hidden_act": "gelu_new",
    }
    write_json(folder / "config.json", config)


def test_hidden_states_of_a_trained_encoder(
    shared: Path, tmp_path: Path, record_exactness: Callable[[str, float, str], None]
) -> None:
    write_folder(shared, tmp_path / "plbert")
    encoder = load_model(tmp_path / "plbert")
    with np.load(shared / "fixtures/checkpoints/plbert/reference_io.npz") as reference:
        with torch.no_grad():
            output = encoder(torch.from_numpy(reference["input_ids"])).sequence_BSH[0].numpy()
        difference = float(np.abs(output - reference["numpy_last_hidden"]).max())
        onnx = reference["onnx_last_hidden"]
    assert difference <= 1e-4
    record_exactness("a trained encoder (plbert), plain numpy", difference, COMMAND)
    cosine = (
        (output * onnx).sum(-1) / np.linalg.norm(output, axis=-1) / np.linalg.norm(onnx, axis=-1)
    )
    assert cosine.mean() >= 0.99
    assert cosine.min() >= 0.98
