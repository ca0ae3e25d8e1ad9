"""Checkpoints are imported whole or refused by name; slots are skipped; files are found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bundle_writer import write_bundle
from litebert.common.errors import CheckpointError
from litebert.interop.hf import build_model, load_model
from litebert.interop.tf.importer import find_checkpoint, import_tf, read_config, variable_names
from litebert.model.config import ModelConfig
from litebert.model.head_table import Head

CONFIG: dict[str, object] = {
    "vocab_size": 19,
    "embedding_size": 4,
    "hidden_size": 8,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "hidden_act": "gelu",
    "max_position_embeddings": 10,
}

Arrays = dict[str, np.ndarray]


def write_config(folder: Path, **changes: object) -> ModelConfig:
    values = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    (folder / "albert_config.json").write_text(json.dumps(values))
    return read_config(folder)


def official(config: ModelConfig, head: Head) -> tuple[Arrays, dict[str, torch.Tensor]]:
    """Variables of a random model as TensorFlow lays them out, and the model's own state."""
    model = build_model(config, head)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    prefix = "encoder." if head == "encoder" else ""
    state = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    arrays = {}
    for ours, variable in variable_names(config, head).items():
        array = state[ours].numpy()
        arrays[variable.name] = array.T.copy() if variable.transposed else array.copy()
    return arrays, state


@pytest.mark.parametrize("head", ["encoder", "pretraining", "squad2"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"num_hidden_groups": 2, "inner_group_num": 2}, {"embedding_size": 8}],
    ids=["shared", "groups", "square"],
)
def test_every_variable_is_used_once_and_slots_are_skipped(
    head: Head, changes: dict[str, object], tmp_path: Path
) -> None:
    config = write_config(tmp_path, **changes)
    arrays, state = official(config, head)
    slots = {f"{name}/{slot}": array for name, array in arrays.items() for slot in ("adam_m", "adam_v")}
    extra = {"global_step": np.array(7), "beta1_power": np.zeros((), "f4")}
    write_bundle(tmp_path / "model.ckpt-7", {**arrays, **slots, **extra}, num_shards=2)
    found = import_tf(tmp_path, tmp_path / "out")
    assert (found.head, found.num_variables) == (head, len(arrays))
    assert found.num_skipped == 2 * len(arrays) + 2
    assert not found.tokenizer
    loaded = load_model(tmp_path / "out").state_dict()
    assert len(loaded) == len(state) == len(arrays)
    prefix = "encoder." if head == "encoder" else ""
    assert all(torch.equal(tensor, state[prefix + name]) for name, tensor in loaded.items())


@pytest.fixture
def checkpoint(tmp_path: Path) -> tuple[Path, Arrays]:
    arrays, _ = official(write_config(tmp_path), "pretraining")
    return tmp_path / "model.ckpt-best", arrays


def refusal(prefix: Path, arrays: Arrays) -> str:
    write_bundle(prefix, arrays)
    with pytest.raises(CheckpointError) as info:
        import_tf(prefix.parent, prefix.parent / "out")
    assert not (prefix.parent / "out").exists()
    assert "\n" not in str(info.value)
    return str(info.value)


def test_missing_variables_are_named(checkpoint: tuple[Path, Arrays]) -> None:
    prefix, arrays = checkpoint
    del arrays["bert/pooler/dense/bias"]
    assert "lacks 1 variables: bert/pooler/dense/bias" in refusal(prefix, arrays)


def test_variables_that_fit_nowhere_are_named(checkpoint: tuple[Path, Arrays]) -> None:
    prefix, arrays = checkpoint
    arrays["output_weights"] = np.zeros((2, 8), "f4")
    arrays["bert/encoder/transformer/group_1/inner_group_0/LayerNorm/beta"] = np.zeros(8, "f4")
    message = refusal(prefix, arrays)
    assert "has 2 variables that fit nowhere" in message
    assert "output_weights" in message
    assert "group_1" in message


def test_another_shape_is_named(checkpoint: tuple[Path, Arrays]) -> None:
    prefix, arrays = checkpoint
    name = "bert/embeddings/word_embeddings"
    arrays[name] = arrays[name][:-1].copy()
    assert f"{name} has shape (18, 4)" in refusal(prefix, arrays)


def test_which_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no file ends in \.index"):
        find_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="neither a folder nor the prefix"):
        find_checkpoint(tmp_path / "nothing")
    (tmp_path / "model.ckpt-10.index").touch()
    assert find_checkpoint(tmp_path).name == "model.ckpt-10"
    (tmp_path / "model.ckpt-20.index").touch()
    with pytest.raises(CheckpointError, match=r"model.ckpt-10, model.ckpt-20"):
        find_checkpoint(tmp_path)
    assert find_checkpoint(tmp_path / "model.ckpt-20").name == "model.ckpt-20"
    (tmp_path / "model.ckpt-best.index").touch()
    assert find_checkpoint(tmp_path).name == "model.ckpt-best"


def test_official_gelu_is_the_tanh_form(tmp_path: Path) -> None:
    assert write_config(tmp_path).activation == "gelu_tanh"
    assert write_config(tmp_path, hidden_act="relu").activation == "relu"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 22, "num_hidden_groups": 22}, "official code rounds 22 groups"),
        ({"vocab_size": None}, "has no vocab_size"),
        ({"hidden_size": 9}, "does not divide"),
    ],
)
def test_configs_that_cannot_be_imported(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        write_config(tmp_path, **changes)


def test_groups_that_only_transformers_rounds_differently_are_imported(tmp_path: Path) -> None:
    config = write_config(tmp_path, num_hidden_layers=18, num_hidden_groups=14)
    arrays, _ = official(config, "encoder")
    write_bundle(tmp_path / "ckpt", arrays)
    import_tf(tmp_path, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "litebert"


def test_the_vocabulary_is_taken_along(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    arrays, _ = official(write_config(tmp_path), "encoder")
    write_bundle(tmp_path / "model.ckpt-best", arrays)
    model = (tiny_tokenizer_dir / "spiece.model").read_bytes()
    (tmp_path / "30k-clean.model").write_bytes(model)
    assert import_tf(tmp_path, tmp_path / "out").tokenizer
    assert (tmp_path / "out" / "spiece.model").read_bytes() == model
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    (tmp_path / "other.model").write_bytes(model)
    with pytest.raises(CheckpointError, match=r"30k-clean.model, other.model; keep one"):
        import_tf(tmp_path, tmp_path / "out2")
