"""Folders go both ways between litebert and transformers: same outputs, same bits, every head."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from litebert.interop.hf import build_model, load_model, save_model
from litebert.interop.names import POOLER
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.head_table import HEADS, Head

transformers = pytest.importorskip("transformers")

COMMAND = "pytest tests/parity/test_hf_folders.py"
TOLERANCE = 1e-5
NUM_LABELS = 3

AUTO_CLASSES: dict[Head, str] = {
    "encoder": "AutoModel",
    "pretraining": "AutoModelForPreTraining",
    "masked_lm": "AutoModelForMaskedLM",
    "classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "multiple_choice": "AutoModelForMultipleChoice",
    "token_classification": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
}

SHAPES: dict[str, dict[str, object]] = {
    "all shared": {},
    "not shared": {"sharing": "none"},
    "two groups of two blocks": {"sharing": "groups", "num_groups": 2, "inner_group_num": 2},
    "square, no projection": {"embedding_size": 32, "sharing": "none"},
    "square, projected": {"embedding_size": 32, "embedding_projection": True},
    "erf gelu": {"activation": "gelu"},
}


@dataclass(frozen=True)
class Batch:
    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor


def shape(**changes: object) -> ModelConfig:
    tiny = {
        "vocab_size": 61,
        "embedding_size": 16,
        "hidden_size": 32,
        "num_layers": 4,
        "num_heads": 4,
        "intermediate_size": 48,
        "max_positions": 24,
    }
    return ModelConfig(**{**tiny, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def record_worst(record_exactness: Callable[[str, float, str], None]) -> Callable[[str, float], None]:
    """Records the largest difference over all shapes."""
    worst: dict[str, float] = {}

    def record(reference: str, difference: float) -> None:
        worst[reference] = max(difference, worst.get(reference, 0.0))
        record_exactness(reference, worst[reference], COMMAND)

    return record


@pytest.fixture(scope="module")
def batch() -> Batch:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 61, (3, 17), generator=generator)
    lengths = torch.tensor([17, 9, 4])
    mask = (torch.arange(17) < lengths[:, None]).long()
    segments = (torch.arange(17) > 5).long().expand(3, -1).contiguous()
    return Batch(ids, mask, segments)


def randomize(model: nn.Module) -> nn.Module:
    """Give every parameter its own values, biases and norms too, so that a wrong name shows."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.1 * noise)
    return model.eval()


def inputs_for(head: Head, batch: Batch) -> dict[str, Tensor]:
    values = vars(batch)
    if head == "multiple_choice":
        return {name: torch.stack((value, value.flip(0)), dim=1) for name, value in values.items()}
    return dict(values)


@torch.no_grad()
def our_outputs(model: nn.Module, head: Head, batch: Batch) -> list[Tensor]:
    inputs = inputs_for(head, batch)
    if isinstance(model, Encoder):
        out = model(*inputs.values(), return_hidden_states=True)
        return [*out.hidden_states, out.sequence_BSH, model.pool_first(out.sequence_BSH[:, 0])]
    if head in ("pretraining", "masked_lm"):
        out = model(**inputs, masked_positions_M=torch.arange(batch.input_ids.numel()))
        logits = out.mlm_logits_MV.view(*batch.input_ids.shape, -1)
        return [logits] if head == "masked_lm" else [logits, out.sentence_logits_B2]
    out = model(**inputs)
    return [out.start_logits_BS, out.end_logits_BS] if head == "span" else [out.logits]


@torch.no_grad()
def their_outputs(model: nn.Module, head: Head, batch: Batch) -> list[Tensor]:
    out = model(**inputs_for(head, batch), output_hidden_states=head == "encoder")
    if head == "encoder":
        return [*out.hidden_states, out.last_hidden_state, out.pooler_output]
    if head == "pretraining":
        return [out.prediction_logits, out.sop_logits]
    return [out.start_logits, out.end_logits] if head == "span" else [out.logits]


def largest_difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    assert [tensor.shape for tensor in ours] == [tensor.shape for tensor in theirs]
    return max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))


def set_attention(model: nn.Module, implementation: str) -> None:
    encoder = getattr(model, "encoder", None)
    target = model if encoder is None else encoder
    assert hasattr(target, "attention_implementation")
    target.attention_implementation = implementation


def load_theirs(folder: Path, head: Head, attention: str) -> tuple[nn.Module, dict[str, object]]:
    auto_class = getattr(transformers, AUTO_CLASSES[head])
    model, report = auto_class.from_pretrained(
        folder, attn_implementation=attention, output_loading_info=True, local_files_only=True
    )
    return model.eval(), report


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("head", AUTO_CLASSES)
def test_our_folder_loads_in_transformers_and_back(
    head: Head, changes: dict[str, object], batch: Batch, tmp_path: Path, record_worst: Callable[[str, float], None]
) -> None:
    model = randomize(build_model(shape(**changes), head, NUM_LABELS))
    save_model(model, tmp_path / "ours", head=head)
    worst = 0.0
    for attention in ("eager", "sdpa"):
        theirs, report = load_theirs(tmp_path / "ours", head, attention)
        problems = {key: value for key, value in report.items() if value}
        assert not problems
        set_attention(model, attention)
        difference = largest_difference(our_outputs(model, head, batch), their_outputs(theirs, head, batch))
        worst = max(worst, difference)
    assert worst <= TOLERANCE
    record_worst(f"transformers, folder written by litebert: {head}", worst)

    back = load_model(tmp_path / "ours")
    assert vars(back)["config"].has_projection == shape(**changes).has_projection
    left_out = set() if HEADS[head].pooled else set(POOLER)
    left_out |= {"sentence.weight", "sentence.bias"} if head == "masked_lm" else set()
    expected, found = model.state_dict(), back.state_dict()
    assert set(expected) == set(found)
    for name in set(expected) - left_out:
        assert torch.equal(expected[name], found[name]), name


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("head", AUTO_CLASSES)
def test_their_folder_loads_here_and_is_written_back_bit_for_bit(
    head: Head, changes: dict[str, object], batch: Batch, tmp_path: Path, record_worst: Callable[[str, float], None]
) -> None:
    config = shape(**changes)
    theirs = _their_model(config, head)
    randomize(theirs)
    if changes == SHAPES["square, no projection"]:
        prefix = "" if head == "encoder" else f"{theirs.base_model_prefix}."
        mapping = f"{prefix}encoder.embedding_hidden_mapping_in"
        nn.init.eye_(theirs.get_parameter(f"{mapping}.weight"))
        nn.init.zeros_(theirs.get_parameter(f"{mapping}.bias"))
    theirs.save_pretrained(tmp_path / "theirs")
    model = load_model(tmp_path / "theirs")
    worst = 0.0
    for attention in ("eager", "sdpa"):
        theirs.set_attn_implementation(attention)
        set_attention(model, attention)
        difference = largest_difference(our_outputs(model, head, batch), their_outputs(theirs, head, batch))
        worst = max(worst, difference)
    assert worst <= TOLERANCE
    record_worst(f"transformers, folder written by transformers: {head}", worst)

    save_model(model, tmp_path / "back", head=head)
    back, _ = load_theirs(tmp_path / "back", head, "sdpa")
    expected, found = theirs.state_dict(), back.state_dict()
    assert set(expected) == set(found)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def _their_model(config: ModelConfig, head: Head) -> Any:
    """A model made by transformers itself from its own configuration class."""
    groups = {"all": 1, "none": config.num_layers, "groups": config.num_groups}[config.sharing]
    labels = {"classification": NUM_LABELS, "token_classification": NUM_LABELS, "regression": 1}
    foreign = transformers.AlbertConfig(
        vocab_size=config.vocab_size,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_hidden_groups=groups,
        num_attention_heads=config.heads,
        intermediate_size=config.ffn,
        inner_group_num=config.inner_group_num,
        hidden_act={"gelu": "gelu", "gelu_tanh": "gelu_new"}[config.activation],
        max_position_embeddings=config.max_positions,
        num_labels=labels.get(head, 2),
    )
    return getattr(transformers, f"Albert{HEADS[head].architecture}")(foreign)


@pytest.mark.parametrize(
    ("head", "changes"),
    [
        ("pretraining", {"sharing": "attention"}),
        ("classification", {"sharing": "ffn"}),
        ("encoder", {"embedding_layout": "projected_words"}),
        ("squad2", {}),
        ("regression", {"pooling": "mean"}),
        ("encoder", {"num_layers": 18, "sharing": "groups", "num_groups": 14}),
    ],
)
def test_what_transformers_cannot_run_is_refused_by_it_and_loads_here(
    head: Head, changes: dict[str, object], tmp_path: Path
) -> None:
    model = randomize(build_model(shape(**changes), head, NUM_LABELS))
    save_model(model, tmp_path / "ours")
    values = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert values["model_type"] == "litebert"
    with pytest.raises(ValueError, match="litebert"):
        transformers.AutoModel.from_pretrained(tmp_path / "ours", local_files_only=True)
    expected, found = model.state_dict(), load_model(tmp_path / "ours").state_dict()
    assert set(expected) == set(found)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_swapped_mapping_would_be_noticed(batch: Batch, tmp_path: Path) -> None:
    model = randomize(build_model(shape(), "encoder"))
    save_model(model, tmp_path / "ours")
    theirs, _ = load_theirs(tmp_path / "ours", "encoder", "sdpa")
    attention: Any = theirs.get_submodule("encoder.albert_layer_groups.0.albert_layers.0.attention")
    attention.query, attention.key = attention.key, attention.query
    difference = largest_difference(our_outputs(model, "encoder", batch), their_outputs(theirs, "encoder", batch))
    assert difference > 100 * TOLERANCE
