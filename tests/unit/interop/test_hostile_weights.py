"""Weights of the wrong kind, and settings that are larger than the weights: one line each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx as onnx_module
import pytest
import torch
from safetensors.torch import load_file, save_file

from litebert.common.errors import CheckpointError, ConfigError
from litebert.interop.hf import build_model, load_model
from litebert.interop.names import tensor_shapes
from litebert.interop.onnx.export import export_onnx
from litebert.model.config import ModelConfig
from litebert.model.counts import check_memory
from litebert.model.head_table import HEADS, Head
from litebert.predict.predictor import Predictor
from tiny_models import TINY

WORDS = "albert.embeddings.word_embeddings.weight"


@pytest.fixture
def folder(model_folder: Callable[[Head], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder("pretraining"), tmp_path / "model"))


def change_weights(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors[WORDS] = change(tensors[WORDS])
    save_file(tensors, path)


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "config",
    [
        TINY,
        ModelConfig(64, 16, 32, 4, 2, 48, "groups", 2, 2, max_positions=16),
        ModelConfig(64, 16, 32, 3, 2, sharing="ffn", embedding_layout="projected_words"),
        ModelConfig(64, 32, 32, 2, 2, sharing="none", embedding_projection=True),
    ],
    ids=["tiny", "groups", "ffn", "square"],
)
def test_shapes_are_those_of_the_built_model(head: Head, config: ModelConfig) -> None:
    with torch.device("meta"):
        model = build_model(config, HEADS[head].part_of or head, 3)
    prefix = "encoder." if HEADS[head].bare else ""
    built = {prefix + name: tuple(t.shape) for name, t in model.state_dict().items()}
    shapes = tensor_shapes(config, head, 3)
    assert shapes == {name: built[name] for name in shapes}
    if HEADS[head].part_of is None:
        assert shapes.keys() == built.keys()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.to(torch.int32), "holds int32 values"),
        (lambda t: t.to(torch.float8_e4m3fn), "F8_E4M3, which is not read"),
        (lambda t: t.to(torch.complex64), "C64, which is not read"),
        (lambda t: t.bool(), "holds bool values"),
        (lambda t: t * float("nan"), "not finite"),
        (lambda t: t.double() * 1e300, "not finite"),
        (lambda t: t[:, :-1].contiguous(), "different shape"),
        (lambda t: t[:0].contiguous(), "different shape"),
    ],
)
def test_weights_of_the_wrong_kind_are_named(
    folder: Path, change: Callable[[torch.Tensor], torch.Tensor], said: str
) -> None:
    change_weights(folder, change)
    with pytest.raises(CheckpointError, match=said) as caught:
        load_model(folder)
    assert "word_embeddings" in str(caught.value)
    with pytest.raises(CheckpointError, match=said):
        export_onnx(folder, folder.parent / "out")
    assert not (folder.parent / "out").exists()


def test_answers_that_are_not_numbers_are_one_line(
    folder: Path, tmp_path: Path, onnx_folder: Callable[[Head], Path]
) -> None:
    """Weights may be finite and still too large to compute with."""
    change_weights(folder, lambda t: t * 0 + torch.linspace(-1e38, 1e38, t.shape[1]))
    onnx = Path(shutil.copytree(onnx_folder("pretraining"), tmp_path / "onnx"))
    model = onnx_module.load(onnx / "model.onnx")
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx_module.TensorProto.FLOAT and len(tensor.dims) == 2:
            values = onnx_module.numpy_helper.to_array(tensor)
            tensor.raw_data = np.full_like(values, 3e38).tobytes()
    onnx_module.save(model, onnx / "model.onnx")
    for source in (folder, onnx):
        with pytest.raises(CheckpointError, match="not numbers"):
            Predictor.load(source).fill_mask(["the [MASK] is long"])


def test_an_integer_that_no_parameter_is_may_stand_beside(folder: Path) -> None:
    path = folder / "model.safetensors"
    counter = {"albert.embeddings.position_ids": torch.arange(64)}
    save_file({**load_file(path), **counter}, path)
    load_model(folder)


@pytest.mark.parametrize(
    "values",
    [
        {"vocab_size": 2000},
        {"hidden_size": 64},
        {"max_position_embeddings": 128},
        {"intermediate_size": 256},
        {"embedding_size": 32},
        {"type_vocab_size": 3},
    ],
    ids=lambda values: next(iter(values)),
)
def test_settings_larger_than_the_weights_are_refused_everywhere(folder: Path, values: dict[str, object]) -> None:
    change_config(folder, **values)
    for read in (load_model, Predictor.load, lambda path: export_onnx(path, path.parent / "out")):
        with pytest.raises(CheckpointError, match="different shape"):
            read(folder)


@pytest.mark.parametrize(
    ("values", "num_words"),
    [({"vocab_size": 1400}, 5), ({"max_position_embeddings": 4096}, 200)],
    ids=["words", "positions"],
)
def test_settings_larger_than_an_onnx_file_are_one_line(
    onnx_folder: Callable[[Head], Path], tmp_path: Path, values: dict[str, object], num_words: int
) -> None:
    folder = Path(shutil.copytree(onnx_folder("pretraining"), tmp_path / "onnx"))
    change_config(folder, **values)
    predictor = Predictor.load(folder)
    with pytest.raises(CheckpointError, match="another model"):
        predictor.fill_mask(["the [MASK] is " + "long " * num_words])


@pytest.mark.parametrize(
    "key",
    ["hidden_size", "num_hidden_layers", "max_position_embeddings", "vocab_size", "embedding_size",
     "num_hidden_groups", "inner_group_num", "intermediate_size", "num_attention_heads",
     "type_vocab_size"],
)  # fmt: skip
@pytest.mark.parametrize("value", [10**9, 10**18, 0, -1, 2.5, "7", None, [], float("nan")])
def test_absurd_sizes_are_one_line(folder: Path, key: str, value: object) -> None:
    change_config(folder, **{key: value})
    if value is None:
        return  # an absent key has transformers' default, tested elsewhere
    with pytest.raises((CheckpointError, ConfigError), match=r"config\.json"):
        load_model(folder)


def test_absurd_numbers_of_labels(model_folder: Callable[[Head], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model_folder("classification"), tmp_path / "model"))
    for key, value in {"num_labels": 10**9, "id2label": None}.items():
        change_config(folder, **{key: value})
    with pytest.raises(CheckpointError, match="num_labels"):
        load_model(folder)


def test_a_model_that_does_not_fit_the_machine_is_refused_before_it_is_built() -> None:
    large = ModelConfig(hidden_size=65_536, num_layers=100, sharing="none")
    with pytest.raises(ConfigError, match=r"needs .* GB here, and this machine has"):
        build_model(large, "encoder")
    check_memory(TINY)


def test_a_tokenizer_of_another_model_is_one_line(
    model_folder: Callable[[Head], Path], tmp_path: Path, tiny_tokenizer_dir: Path
) -> None:
    from tiny_models import random_model_folder

    small = random_model_folder(tmp_path / "small", "pretraining", tiny_tokenizer_dir, ModelConfig(100, 16, 32, 2, 2))
    with pytest.raises(CheckpointError, match="model of 100 pieces"):
        Predictor.load(small).embed(["The value of the function is returned."])
    assert np.isfinite(load_model(small).get_parameter("mlm.bias").detach().numpy()).all()
