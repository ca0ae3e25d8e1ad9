"""A trained ALBERT encoder with transformers' names gives the outputs of two other programs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from litebert.cli import run
from litebert.common.errors import CheckpointError
from litebert.common.files import write_json
from litebert.interop.hf import load_model
from litebert.predict.predictor import Predictor

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
    cosine = (output * onnx).sum(-1) / np.linalg.norm(output, axis=-1) / np.linalg.norm(onnx, axis=-1)
    assert cosine.mean() >= 0.99
    assert cosine.min() >= 0.98


@pytest.mark.slow
def test_it_goes_on_learning_from_a_stream_of_ids(shared: Path, tmp_path: Path) -> None:
    """Phonemes are not text: `prepare --ids`, and `pretrain --init-from` this folder."""
    write_folder(shared, tmp_path / "plbert")
    numbers, stream = tmp_path / "numbers", tmp_path / "phonemes.jsonl"
    run(["tokenizer", "numbers", "--size", "178", "--specials", "0", "173", "174", "175", "176",
         "--out", str(numbers)])  # fmt: skip
    draw = np.random.default_rng(0)
    rows = [[draw.integers(1, 170, 12).tolist() for _ in range(5)] for _ in range(30)]
    stream.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shards = tmp_path / "shards"
    run(["prepare", "--ids", "--input", str(stream), "--tokenizer", str(numbers), "--out",
         str(shards), "--workers", "1", "--dev-fraction", "0.2"])  # fmt: skip
    arguments = ["pretrain", "--data", str(shards), "--out", str(tmp_path / "run"), "--steps", "2",
        "--init-from", str(tmp_path / "plbert"), "--batch-size", "2", "--examples.length", "32",
        "--optimizer.name", "adamw", "--evaluation.final-examples", "4"]  # fmt: skip
    with pytest.raises(CheckpointError, match="has no tokenizer to compare"):
        run(arguments)
    for file in (shards / "tokenizer").iterdir():
        shutil.copy(file, tmp_path / "plbert")
    run(arguments)
    before = load_model(tmp_path / "plbert").state_dict()
    after = load_model(tmp_path / "run" / "model").state_dict()
    name = "embeddings.position.weight"
    moved = (after[f"encoder.{name}"] - before[name]).abs().max()
    assert 0 < moved < 0.1  # from these weights, not from random ones
    (filled,) = Predictor.load(tmp_path / "run" / "model").fill_mask(["50 [MASK] 52"])
    assert all(found.token.isdecimal() or found.token[0] == "[" for found in filled.masks[0])
