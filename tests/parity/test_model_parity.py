"""Every head equals transformers' ALBERT on tiny random models: outputs, losses and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from litebert.interop.names import tensor_names
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.head_table import Head
from litebert.model.heads import (
    MultipleChoice,
    PretrainingModel,
    SequenceClassifier,
    SequenceRegressor,
    SpanExtractor,
    TokenClassifier,
)

transformers = pytest.importorskip("transformers")

COMMAND = "pytest tests/parity/test_model_parity.py"
TOLERANCE = 1e-5
BATCH, LENGTH, VOCAB = 4, 13, 61

SHAPES = {
    "all shared": ModelConfig(
        vocab_size=VOCAB,
        embedding_size=12,
        hidden_size=24,
        num_heads=3,
        num_layers=3,
        max_positions=32,
        classifier_dropout=0.0,
    ),
    "two groups of inner blocks": ModelConfig(
        vocab_size=VOCAB,
        embedding_size=24,
        embedding_projection=True,
        hidden_size=24,
        num_heads=2,
        intermediate_size=40,
        num_layers=4,
        sharing="groups",
        num_groups=2,
        inner_group_num=2,
        max_positions=32,
        activation="gelu",
        classifier_dropout=0.0,
    ),
    "nothing shared": ModelConfig(
        vocab_size=VOCAB,
        embedding_size=12,
        hidden_size=24,
        num_heads=3,
        num_layers=2,
        sharing="none",
        max_positions=32,
        classifier_dropout=0.0,
    ),
}

ATTENTION = ["sdpa", "eager"]


def _peer_config(config: ModelConfig, attention: str, num_labels: int) -> object:
    """The same shape as a transformers configuration, all dropout off."""
    names = {"gelu_tanh": "gelu_new", "gelu": "gelu"}
    groups = {"groups": config.num_groups, "none": config.num_layers, "all": 1}
    return transformers.AlbertConfig(
        vocab_size=config.vocab_size,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_hidden_groups=groups[config.sharing],
        inner_group_num=config.inner_group_num,
        num_attention_heads=config.heads,
        intermediate_size=config.ffn,
        hidden_act=names[config.activation],
        max_position_embeddings=config.max_positions,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        num_labels=num_labels,
        pad_token_id=0,
        attn_implementation=attention,
    )


def _pair(
    model: nn.Module, head: Head, peer_class: str, attention: str, num_labels: int = 2
) -> tuple[nn.Module, nn.Module, dict[str, str]]:
    """Our model with random weights (biases and norms too), and the peer with the same ones."""
    config = model.config
    assert isinstance(config, ModelConfig)
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    encoder = model if isinstance(model, Encoder) else model.encoder
    assert isinstance(encoder, Encoder)
    encoder.attention_implementation = attention  # type: ignore[assignment]
    peer = getattr(transformers, peer_class)(_peer_config(config, attention, num_labels))
    names = tensor_names(config, head)
    if isinstance(model, Encoder):
        names = {ours.removeprefix("encoder."): theirs.removeprefix("albert.") for ours, theirs in names.items()}
    state = {names[name]: tensor.clone() for name, tensor in model.state_dict().items()}
    result = peer.load_state_dict(state, strict=False)
    # Heads that read every token have no pooler in transformers.
    assert all("pooler" in name for name in result.unexpected_keys), result.unexpected_keys
    assert all("decoder" in name for name in result.missing_keys), result.missing_keys
    peer.tie_weights()
    return model.eval(), peer.eval(), names


class Inputs:
    """Random ids, segments and a mask with padding; our order of arguments and their names."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.ids = torch.randint(5, VOCAB, (BATCH, LENGTH), generator=generator)
        self.segments = (torch.arange(LENGTH) > 6).long().repeat(BATCH, 1)
        self.lengths = torch.tensor([13, 9, 4, 12])
        self.mask = (torch.arange(LENGTH)[None] < self.lengths[:, None]).long()

    @property
    def ours(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.ids, self.mask, self.segments

    @property
    def theirs(self) -> dict[str, Tensor]:
        return {"input_ids": self.ids, "attention_mask": self.mask, "token_type_ids": self.segments}


def _max_difference(pairs: Mapping[str, tuple[Tensor, Tensor]]) -> float:
    """The largest absolute difference; every pair must be within the tolerance."""
    largest = 0.0
    for name, (ours, theirs) in pairs.items():
        assert ours.shape == theirs.shape, name
        difference = (ours - theirs).abs().max().item()
        assert difference <= TOLERANCE, f"{name} differs by {difference:.2e}"
        largest = max(largest, difference)
    return largest


def _assert_gradients(
    model: nn.Module, peer: nn.Module, names: Mapping[str, str], ours: Tensor, theirs: Tensor
) -> None:
    """Gradients of the two losses agree, relative to the largest of each tensor."""
    torch.autograd.backward([ours, theirs])
    peer_gradients = {name: p.grad for name, p in peer.named_parameters()}
    for name, parameter in model.named_parameters():
        expected, actual = peer_gradients.get(names[name]), parameter.grad
        if expected is None or actual is None:
            assert expected is None, f"{name}: only transformers has a gradient"
            assert actual is None, f"{name}: only ours has a gradient"
            continue
        scale = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(actual / scale, expected / scale, rtol=0.0, atol=TOLERANCE)


Record = Callable[[str, float], None]


@pytest.fixture(scope="module")
def record_largest(record_exactness: Callable[[str, float, str], None]) -> Record:
    """Record the largest difference to each class of transformers, over shapes and attentions."""
    largest: dict[str, float] = {}

    def record(peer_class: str, difference: float) -> None:
        largest[peer_class] = max(difference, largest.get(peer_class, 0.0))
        record_exactness(f"transformers {peer_class}", largest[peer_class], COMMAND)

    return record


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("shape", SHAPES)
class TestParity:
    def test_encoder(self, shape: str, attention: str, record_largest: Record) -> None:
        model, peer, _ = _pair(Encoder(SHAPES[shape]), "encoder", "AlbertModel", attention)
        inputs = Inputs()
        ours = model(*inputs.ours, return_hidden_states=True)
        theirs = peer(**inputs.theirs, output_hidden_states=True)
        real = inputs.mask.bool()
        assert len(ours.hidden_states) == len(theirs.hidden_states)
        pairs = {
            f"hidden state {number}": (one[real], other[real])
            for number, (one, other) in enumerate(zip(ours.hidden_states, theirs.hidden_states, strict=True))
        }
        pooled = model.pool_first(ours.sequence_BSH[:, 0])  # type: ignore[operator]
        pairs["pooled"] = (pooled, theirs.pooler_output)
        difference = _max_difference(pairs)
        record_largest("AlbertModel", difference)

    def test_pretraining(self, shape: str, attention: str, record_largest: Record) -> None:
        model, peer, names = _pair(PretrainingModel(SHAPES[shape]), "pretraining", "AlbertForPreTraining", attention)
        inputs = Inputs()
        where = torch.tensor([1, 3, 14, 20, 27, 28, 45])
        words, orders = torch.arange(10, 17), torch.tensor([0, 1, 1, 0])
        labels = torch.full((BATCH * LENGTH,), -100)
        labels[where] = words
        theirs = peer(**inputs.theirs, labels=labels.view(BATCH, LENGTH), sentence_order_label=orders)
        ours = model(*inputs.ours, where, words, orders)
        logits = model(*inputs.ours, masked_positions_M=where).mlm_logits_MV
        difference = _max_difference(
            {
                "masked logits": (logits, theirs.prediction_logits.flatten(0, 1)[where]),
                "sentence logits": (ours.sentence_logits_B2, theirs.sop_logits),
                "loss": (ours.loss, theirs.loss),
            }
        )
        # transformers gives the padding piece no gradient as an input; no input is padding here.
        _assert_gradients(model, peer, names, ours.loss, theirs.loss)
        record_largest("AlbertForPreTraining", difference)

    def test_masked_lm(self, shape: str, attention: str, record_largest: Record) -> None:
        model, peer, _ = _pair(PretrainingModel(SHAPES[shape]), "pretraining", "AlbertForPreTraining", attention)
        inputs = Inputs()
        every = torch.arange(BATCH * LENGTH)
        ours = model(*inputs.ours, masked_positions_M=every).mlm_logits_MV
        theirs = peer(**inputs.theirs).prediction_logits.flatten(0, 1)
        real = inputs.mask.flatten().bool()
        difference = _max_difference({"logits": (ours[real], theirs[real])})
        record_largest("AlbertForPreTraining", difference)

    @pytest.mark.parametrize(
        ("model_class", "head", "peer_class", "num_labels"),
        [
            (SequenceClassifier, "classification", "AlbertForSequenceClassification", 3),
            (SequenceRegressor, "regression", "AlbertForSequenceClassification", 1),
            (TokenClassifier, "token_classification", "AlbertForTokenClassification", 5),
            (MultipleChoice, "multiple_choice", "AlbertForMultipleChoice", 2),
        ],
    )
    def test_classifiers(
        self,
        shape: str,
        attention: str,
        model_class: type[nn.Module],
        head: Head,
        peer_class: str,
        num_labels: int,
        record_largest: Record,
    ) -> None:
        config = SHAPES[shape]
        takes_labels = head in ("classification", "token_classification")
        made = model_class(config, num_labels) if takes_labels else model_class(config)
        model, peer, names = _pair(made, head, peer_class, attention, num_labels)
        inputs = Inputs()
        ours_in, theirs_in = inputs.ours, inputs.theirs
        labels = {
            "classification": torch.tensor([0, 2, 1, 1]),
            "regression": torch.tensor([0.0, 2.5, 5.0, 1.0]),
            "token_classification": torch.where(inputs.mask.bool(), inputs.ids % 5, -100),
            "multiple_choice": torch.tensor([1, 0]),
        }[head]
        if head == "multiple_choice":
            ours_in = tuple(part.view(2, 2, LENGTH) for part in ours_in)  # type: ignore[assignment]
            theirs_in = {name: part.view(2, 2, LENGTH) for name, part in theirs_in.items()}
        ours = model(*ours_in, labels)
        theirs = peer(**theirs_in, labels=labels)
        real = inputs.mask.bool() if head == "token_classification" else slice(None)
        difference = _max_difference(
            {"logits": (ours.logits[real], theirs.logits[real]), "loss": (ours.loss, theirs.loss)}
        )
        _assert_gradients(model, peer, names, ours.loss, theirs.loss)
        record_largest(peer_class, difference)

    def test_span(self, shape: str, attention: str, record_largest: Record) -> None:
        model, peer, names = _pair(SpanExtractor(SHAPES[shape]), "span", "AlbertForQuestionAnswering", attention)
        inputs = Inputs()
        # 40 lies outside the window: transformers clamps it to the length and ignores it.
        starts, ends = torch.tensor([2, 8, 0, 40]), torch.tensor([4, 8, 3, 40])
        ours = model(*inputs.ours, starts, ends)
        theirs = peer(**inputs.theirs, start_positions=starts, end_positions=ends)
        difference = _max_difference(
            {
                "start": (ours.start_logits_BS, theirs.start_logits),
                "end": (ours.end_logits_BS, theirs.end_logits),
                "loss": (ours.loss, theirs.loss),
            }
        )
        _assert_gradients(model, peer, names, ours.loss, theirs.loss)
        record_largest("AlbertForQuestionAnswering", difference)


def test_a_wrong_mapping_is_noticed() -> None:
    model, peer, _ = _pair(Encoder(SHAPES["all shared"]), "encoder", "AlbertModel", "sdpa")
    query, key = (model.get_parameter(f"attention.0.{part}.weight") for part in ("query", "key"))
    with torch.no_grad():
        was_query = query.clone()
        query.copy_(key)
        key.copy_(was_query)
    inputs = Inputs()
    ours, theirs = model(*inputs.ours).sequence_BSH, peer(**inputs.theirs).last_hidden_state
    with pytest.raises(AssertionError, match="differs"):
        _max_difference({"sequence": (ours, theirs)})
