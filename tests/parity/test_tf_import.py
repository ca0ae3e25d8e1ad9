"""Imported official TensorFlow checkpoints give the official implementation's outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from litebert.interop.hf import load_model
from litebert.interop.tf.bundle import TensorBundle
from litebert.interop.tf.importer import Variable, build, import_tf, read_config, variable_names
from litebert.model.pretraining import PretrainingModel
from litebert.model.squad2 import Squad2Model

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
COMMAND = "pytest tests/parity/test_tf_import.py"
TOLERANCE = 1e-5

Arrays = dict[str, np.ndarray]


def expected(name: str) -> Arrays:
    with np.load(FIXTURES / name / "expected.npz") as file:
        return {key: file[key] for key in file.files}


def longs(arrays: Arrays, *names: str) -> list[torch.Tensor]:
    return [torch.from_numpy(arrays[name]).long() for name in names]


@torch.no_grad()
def pretraining_outputs(model: PretrainingModel, arrays: Arrays) -> dict[str, torch.Tensor]:
    inputs = longs(arrays, "input_ids", "input_mask", "token_type_ids")
    batch, length = arrays["input_ids"].shape
    (positions,) = longs(arrays, "masked_positions")
    flat_positions = (positions + length * torch.arange(batch)[:, None]).flatten()
    encoded = model.encoder(*inputs, return_hidden_states=True)
    out = model(*inputs, masked_positions_M=flat_positions)
    return {
        "sequence_output": encoded.sequence_BSH,
        "pooled_output": model.encoder.pool_first(encoded.sequence_BSH[:, 0]),
        "hidden_states": torch.stack(encoded.hidden_states[1:]),
        "mlm_logits": out.mlm_logits_MV,
        "sop_logits": out.sentence_logits_B2,
    }


@torch.no_grad()
def squad2_outputs(model: Squad2Model, arrays: Arrays) -> dict[str, torch.Tensor]:
    inputs = longs(arrays, "input_ids", "input_mask", "token_type_ids", "p_mask")
    starts, ends = longs(arrays, "start_positions", "end_positions")
    beam = model(*inputs)
    training = model(*inputs, start_positions=starts, end_positions=ends)
    return {
        "infer_start_top_log_probs": beam.start_top_log_probs_BK,
        "infer_start_top_index": beam.start_top_index_BK,
        "infer_end_top_log_probs": beam.end_top_log_probs_BKK.flatten(1),
        "infer_end_top_index": beam.end_top_index_BKK.flatten(1),
        "infer_cls_logits": beam.answer_logits_B,
        "train_start_log_probs": training.start_log_probs_BS,
        "train_end_log_probs": training.end_log_probs_BS,
        "train_cls_logits": training.answer_logits_B,
    }


INPUTS = {"input_ids", "input_mask", "token_type_ids", "masked_positions", "p_mask", "start_positions", "end_positions"}


def largest_difference(outputs: dict[str, torch.Tensor], arrays: Arrays) -> float:
    assert set(outputs) == set(arrays) - INPUTS, "every expected entry is compared"
    for name, output in outputs.items():
        assert output.shape == arrays[name].shape, name
    return max(
        float(np.abs(output.numpy().astype(np.float64) - arrays[name]).max()) for name, output in outputs.items()
    )


def test_pretraining_checkpoint(tmp_path: Path, record_exactness: Callable[[str, float, str], None]) -> None:
    found = import_tf(FIXTURES / "tf_checkpoint", tmp_path / "model")
    assert (found.head, found.num_variables, found.num_skipped) == ("pretraining", 32, 1)
    model = load_model(tmp_path / "model")
    assert isinstance(model, PretrainingModel)
    assert model.config.activation == "gelu_tanh"
    arrays = expected("tf_checkpoint")
    for attention in ("eager", "sdpa"):
        model.encoder.attention_implementation = attention
        worst = largest_difference(pretraining_outputs(model, arrays), arrays)
        assert worst <= TOLERANCE
    record_exactness("official TensorFlow ALBERT, pretraining model", worst, COMMAND)


def test_squad2_checkpoint(tmp_path: Path, record_exactness: Callable[[str, float, str], None]) -> None:
    found = import_tf(FIXTURES / "squad2_head", tmp_path / "model")
    assert (found.head, found.num_variables) == ("squad2", 36)
    model = load_model(tmp_path / "model")
    assert isinstance(model, Squad2Model)
    arrays = expected("squad2_head")
    worst = largest_difference(squad2_outputs(model, arrays), arrays)
    assert worst <= TOLERANCE
    record_exactness("official TensorFlow ALBERT, SQuAD 2.0 model", worst, COMMAND)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("encoder.attention.0.query", "encoder.attention.0.key"),
        ("encoder.norms.0.attention", "encoder.norms.0.feed_forward"),
        ("encoder.attention.0.value", "encoder.attention.0.output"),
    ],
)
def test_a_swapped_mapping_fails(one: str, other: str) -> None:
    folder = FIXTURES / "tf_checkpoint"
    config = read_config(folder)
    variables = variable_names(config, "pretraining")
    for part in ("weight", "bias"):
        a, b = f"{one}.{part}", f"{other}.{part}"
        variables[a], variables[b] = variables[b], variables[a]
    model = build(TensorBundle(folder / "model.ckpt-best"), config, "pretraining", variables)
    arrays = expected("tf_checkpoint")
    assert isinstance(model, PretrainingModel)
    assert largest_difference(pretraining_outputs(model, arrays), arrays) > 100 * TOLERANCE


def test_a_kernel_that_is_not_transposed_fails() -> None:
    folder = FIXTURES / "tf_checkpoint"
    config = read_config(folder)
    variables = variable_names(config, "pretraining")
    name = "encoder.pooler.weight"
    variables[name] = Variable(variables[name].name, transposed=False)
    model = build(TensorBundle(folder / "model.ckpt-best"), config, "pretraining", variables)
    arrays = expected("tf_checkpoint")
    assert isinstance(model, PretrainingModel)
    assert largest_difference(pretraining_outputs(model, arrays), arrays) > 100 * TOLERANCE
