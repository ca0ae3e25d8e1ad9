"""Torch and ONNX say the same for every head, shape and batch; int8 nearly so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from litebert.interop.onnx.export import export_onnx
from litebert.model.config import Pooling
from litebert.model.head_table import Head, outputs_of_head
from litebert.predict.backend import Backend, Runtime, open_backend, run_batch
from litebert.predict.predictor import Predictor
from litebert.tasks.base import Feature, FloatArray, Outputs, Passage, Row
from tiny_models import HEADS, TINY, random_model_folder

COMPOSITIONS = ([1], [5], [64], [3, 3, 3], [2, 17, 9, 64], [40] * 6)
"""Lengths of the inputs of one batch: alone, longest, equal, mixed."""

COMMAND = "pytest tests/parity/test_onnx_parity.py"
MASK_ID = 4


def batch_of(lengths: list[int], seed: int) -> list[Feature]:
    generator = np.random.default_rng(seed)
    features = []
    for length in lengths:
        ids = generator.integers(5, TINY.vocab_size, length)
        masked = tuple(int(i) for i in np.flatnonzero(generator.random(length) < 0.2))
        ids[list(masked)] = MASK_ID
        row = Row(ids.astype(np.int32), length // 2)
        pieces = np.arange(length - row.second)
        passage = Passage(row.second, pieces, pieces, pieces >= 0)
        features.append(Feature(0, (row,), passage=passage, masked=masked))
    return features


def rows_of(backend: Backend, features: list[Feature], names: list[str]) -> list[Outputs]:
    return run_batch(backend, features, names, pad_id=0)


def differences(one: list[Outputs], other: list[Outputs], name: str) -> FloatArray:
    pairs = zip(map(comparable, one), map(comparable, other), strict=True)
    return np.concatenate([np.ravel(a[name] - b[name]) for a, b in pairs])


def comparable(row: Outputs) -> Outputs:
    """Blank what a beam says about forbidden places: where nothing is left, any place will do."""
    if "start_top_log_probs" not in row:
        return row
    starts = row["start_top_log_probs"] > -1e29
    ends = starts[:, None] & (row["end_top_log_probs"] > -1e29)
    real = {name: starts if name.startswith("start_top") else ends for name in row if "_top_" in name}
    return {**row, **{name: np.where(kept, row[name], 0) for name, kept in real.items()}}


@pytest.mark.parametrize("head", HEADS)
def test_torch_and_onnx_agree(tmp_path: Path, head: Head, record_exactness: Callable[[str, float, str], None]) -> None:
    source = random_model_folder(tmp_path / "model", head, None)
    export_onnx(source, tmp_path / "out")
    torch_backend = open_backend(source, "torch", threads=1)
    onnx_backend = open_backend(tmp_path / "out", "onnx", threads=1)
    names = sorted(outputs_of_head(head))
    assert set(names) <= onnx_backend.info.outputs
    largest = 0.0
    for seed, lengths in enumerate(COMPOSITIONS):
        features = batch_of(lengths, seed)
        expected = rows_of(torch_backend, features, names)
        computed = rows_of(onnx_backend, features, names)
        for name in names:
            difference = np.abs(differences(expected, computed, name)).max(initial=0.0)
            assert difference < 1e-4, (name, lengths)
            largest = max(largest, float(difference))
    record_exactness(f"torch against ONNX, {head} (largest difference)", largest, COMMAND)


@pytest.mark.parametrize("head", ["classification", "multiple_choice"])
def test_the_mean_of_tokens_is_the_same_in_onnx(tmp_path: Path, head: Head) -> None:
    source = random_model_folder(tmp_path / "model", head, None, replace(TINY, pooling="mean"))
    by_cls = random_model_folder(tmp_path / "cls", head, None)
    export_onnx(source, tmp_path / "out")  # compared with the reference in numpy there
    features = batch_of([2, 17, 9, 64], seed=1)
    first, second, other = (
        rows_of(open_backend(folder, threads=1), features, ["logits"]) for folder in (source, tmp_path / "out", by_cls)
    )
    assert np.abs(differences(first, second, "logits")).max() < 1e-4
    assert np.abs(differences(first, other, "logits")).max() > 1e-3


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
@pytest.mark.parametrize("head", HEADS)
def test_an_output_is_the_same_alone_and_with_others(tmp_path: Path, head: Head, runtime: Runtime) -> None:
    """Asked for alone it may be computed at few tokens, which must not show."""
    source = random_model_folder(tmp_path / "model", head, None)
    if runtime == "onnx":
        export_onnx(source, tmp_path / "out")
        source = tmp_path / "out"
    backend = open_backend(source, runtime, threads=1)
    names = sorted(outputs_of_head(head))
    features = batch_of([2, 17, 9, 64], seed=1)
    together = rows_of(backend, features, names)
    for name in names:
        alone = rows_of(backend, features, [name])
        for one, other in zip(alone, together, strict=True):
            assert np.allclose(one[name], other[name], atol=1e-5), name


@pytest.mark.parametrize("head", ["pretraining", "classification", "span"])
def test_int8_follows_float32(tmp_path: Path, head: Head) -> None:
    config = replace(TINY, hidden_size=128, embedding_size=64, num_layers=6)
    source = random_model_folder(tmp_path / "model", head, None, config)
    export_onnx(source, tmp_path / "int8", int8=True)
    full = open_backend(source, "torch", threads=1)
    small = open_backend(tmp_path / "int8", "onnx", threads=1)
    features = batch_of([24] * 8, seed=0)
    expected = np.stack([row["last_hidden_state"] for row in rows_of(full, features, ["last_hidden_state"])])
    computed = np.stack([row["last_hidden_state"] for row in rows_of(small, features, ["last_hidden_state"])])
    cosine = (expected * computed).sum(-1)
    cosine /= np.linalg.norm(expected, axis=-1) * np.linalg.norm(computed, axis=-1)
    assert cosine.mean() > 0.995
    assert small.info.runtime == "onnx int8"


def test_padding_changes_nothing(tmp_path: Path) -> None:
    source = random_model_folder(tmp_path / "model", "pretraining", None)
    export_onnx(source, tmp_path / "out")
    for backend in (open_backend(source, "torch"), open_backend(tmp_path / "out", "onnx")):
        together = batch_of([4, 50, 23], seed=3)
        names = ["masked_logits", "sop_logits"]
        joint = rows_of(backend, together, names)
        alone = [rows_of(backend, [feature], names)[0] for feature in together]
        for name in names:
            assert np.abs(differences(joint, alone, name)).max() < 1e-5


def test_plbert_matches_its_numpy_reference(
    shared: Path, tmp_path: Path, record_exactness: Callable[[str, float, str], None]
) -> None:
    """A trained encoder of other makers: float32 exact, int8 as near as their own int8."""
    import json

    from safetensors.numpy import save_file

    folder = shared / "fixtures/checkpoints/plbert"
    weights, reference = np.load(folder / "weights.npz"), np.load(folder / "reference_io.npz")
    source = tmp_path / "plbert"
    source.mkdir()
    kept = {n: weights[n].astype(np.float32) for n in weights.files if "bert_encoder" not in n}
    save_file({n: np.ascontiguousarray(a) for n, a in kept.items()}, source / "model.safetensors")
    config = {
        "model_type": "albert",
        "architectures": ["AlbertModel"],
        "vocab_size": 178,
        "embedding_size": 128,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "hidden_act": "gelu_new",
    }
    (source / "config.json").write_text(json.dumps(config))
    ids = reference["input_ids"].reshape(1, -1)
    feature = Feature(0, (Row(ids[0].astype(np.int32), ids.shape[1]),))
    expected = reference["numpy_last_hidden"].reshape(-1, 768)
    for int8, least_cosine in ((False, 0.999999), (True, 0.985)):
        out = tmp_path / f"int8-{int8}"
        report = export_onnx(source, out, int8=int8)
        assert report.file_bytes < (8e6 if int8 else 30e6)
        backend = open_backend(out, "onnx")
        row = rows_of(backend, [feature], ["last_hidden_state"])[0]["last_hidden_state"]
        cosine = (row * expected).sum(-1)
        cosine /= np.linalg.norm(row, axis=-1) * np.linalg.norm(expected, axis=-1)
        assert cosine.mean() > least_cosine
        if not int8:
            largest = float(np.abs(row - expected).max())
            assert largest < 1e-4
            record_exactness("PL-BERT in numpy against ONNX float32", largest, COMMAND)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_sentence_transformers_loads_the_folder(
    tmp_path: Path,
    tiny_tokenizer_dir: Path,
    pooling: Pooling,
    backend: str,
    record_exactness: Callable[[str, float, str], None],
) -> None:
    library = pytest.importorskip("sentence_transformers")
    if backend == "onnx":
        reason = "needs optimum-onnx, which wants transformers 4"
        pytest.importorskip("optimum.exporters.onnx.convert", reason=reason, exc_type=ImportError)
    source = random_model_folder(tmp_path / "model", "pretraining", tiny_tokenizer_dir)
    export_onnx(source, tmp_path / "out", pooling=pooling)
    if backend == "torch":
        shutil.copyfile(source / "model.safetensors", tmp_path / "out/model.safetensors")
    texts = ["a name", "The value of an Expression, in parentheses.", "it " * 100]
    model = library.SentenceTransformer(str(tmp_path / "out"), backend=backend, device="cpu")
    expected = Predictor.load(tmp_path / "out", "onnx").embed(texts, pooling)
    difference = float(np.abs(model.encode(texts) - expected).max())
    assert difference < 1e-5
    record_exactness(f"sentence-transformers, {backend}, {pooling} pooling", difference, COMMAND)
