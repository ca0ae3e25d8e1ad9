"""The tool that makes the bundled model: a run in half precision, small enough, with its card."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from bundle import MAX_BYTES, make_bundle, write_half_precision
from hidden_words import find_hidden_words
from safetensors.numpy import load_file, save_file

from litebert.bundled import bundled_model
from litebert.common.config import from_dict
from litebert.common.errors import CheckpointError
from litebert.common.files import read_json
from litebert.interop.hf import load_model
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.engine import pretrain


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny_shards_dir: Path) -> Path:
    """A pretraining run of a few steps."""
    out = tmp_path_factory.mktemp("run") / "run"
    values = {
        "data": str(tiny_shards_dir), "out": str(out), "steps": 3, "batch_size": 4,
        "model": {"preset": "albert-tiny"}, "optimizer": {"name": "adamw"},
        "examples": {"length": 64, "micro_batch_size": 4},
        "evaluation": {"final_examples": 32},
    }  # fmt: skip
    pretrain(from_dict(PretrainConfig, values), quiet=True)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, trained: Path, tiny_shards_dir: Path) -> Path:
    """The run as a bundled model."""
    out = tmp_path_factory.mktemp("bundled") / "model"
    make_bundle(trained, out, tiny_shards_dir, data="Help texts.", num_hidden_words=20)
    return out


def test_half_precision_on_disk_float32_in_memory(folder: Path, trained: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {np.dtype(np.float16)}
    original = load_model(trained / "model")
    loaded = load_model(folder)
    for (name, ours), (_, theirs) in zip(loaded.named_parameters(), original.named_parameters(), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs.half().float(), rtol=0, atol=0, msg=name)


def test_transformers_reads_it_in_float32(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.AlbertForPreTraining.from_pretrained(folder)
    ids = torch.tensor([[2, 10, 4, 20, 3]])
    ours = load_model(folder)
    with torch.no_grad():
        theirs = model(ids).prediction_logits
        mine = ours(ids, masked_positions_M=torch.arange(ids.numel())).mlm_logits_MV
    assert theirs.dtype == torch.float32
    torch.testing.assert_close(mine.reshape(theirs.shape), theirs, rtol=1e-4, atol=1e-4)


def test_others_may_read_the_files(folder: Path, trained: Path) -> None:
    """A server in a container runs as another user than the one who trained."""
    umask = os.umask(0)
    os.umask(umask)
    for path in (folder / "model.safetensors", trained / "model" / "model.safetensors"):
        assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_weight_beyond_half_precision_is_refused(tmp_path: Path) -> None:
    save_file({"w": np.array([1.0, 1e6], np.float32)}, tmp_path / "a.safetensors")
    with pytest.raises(CheckpointError, match="float16 cannot"):
        write_half_precision(tmp_path / "a.safetensors", tmp_path / "b.safetensors")


def test_too_large_a_folder_is_refused_and_the_old_one_kept(folder: Path, trained: Path, tiny_shards_dir: Path) -> None:
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match="at most 1,000 are allowed"):
        make_bundle(trained, folder, tiny_shards_dir, data="", num_hidden_words=5, max_bytes=1000)
    assert (folder / "model.safetensors").read_bytes() == before


def test_the_card_has_the_figures_of_the_run(folder: Path, trained: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    lines = (trained / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    dev = [json.loads(line) for line in lines if "dev_masked_loss" in line][-1]
    assert f"{dev['dev_masked_loss']:.3f}" in card
    assert f"{dev['dev_mlm_accuracy']:.1%}" in card
    assert "Help texts." in card
    assert card.count("[MASK]") >= 20
    assert "Fine-tuned scores: not run." in card


def test_hidden_words_of_a_model_that_knows_frequencies_only(folder: Path, tiny_shards_dir: Path) -> None:
    """Three steps teach nothing, so the model is no better than chance or the unigram guess."""
    found = find_hidden_words(folder, tiny_shards_dir, 50)
    assert found.sentences == 50
    assert found == find_hidden_words(folder, tiny_shards_dir, 50)
    for name in ("model", "random", "unigram"):
        assert 0 <= getattr(found, f"{name}_top1") <= getattr(found, f"{name}_top5") <= 0.6


def test_what_is_shipped_is_small_and_whole() -> None:
    folder = bundled_model()
    assert (folder / "model.safetensors").stat().st_size <= MAX_BYTES
    assert read_json(folder / "config.json")["vocab_size"]
    stored = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {np.dtype(np.float16)}
