"""Heads: shapes, losses by hand, labels that do not count, and the SQuAD 2.0 beam."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from litebert.common.errors import ConfigError, InputError
from litebert.model.config import ModelConfig
from litebert.model.encoder import HeadInputs
from litebert.model.head_table import HEADS, Head, head_class
from litebert.model.heads import (
    MultipleChoice,
    PretrainingModel,
    SequenceClassifier,
    SequenceRegressor,
    SpanExtractor,
    TaskModel,
    TokenClassifier,
)
from litebert.model.squad2 import Squad2Model

CONFIG = ModelConfig(
    vocab_size=40,
    embedding_size=8,
    hidden_size=16,
    num_heads=2,
    num_layers=2,
    max_positions=16,
    initializer_range=0.3,
    classifier_dropout=0.0,
)
IDS = torch.randint(5, 40, (3, 9), generator=torch.Generator().manual_seed(0))
MASK = torch.ones_like(IDS)
MASK[2, 6:] = 0


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_pretraining_sums_divide_to_the_mean_loss() -> None:
    model = PretrainingModel(CONFIG)
    where, words = torch.tensor([1, 10, 20, 13]), torch.tensor([7, 8, 9, -100])
    orders = torch.tensor([0, 1, 0])
    out = model(IDS, MASK, None, where, words, orders)
    logits = model(IDS, MASK, None, where).mlm_logits_MV
    assert logits.shape == (4, 40)
    torch.testing.assert_close(out.mlm_loss_sum, F.cross_entropy(logits, words, reduction="sum"))
    assert out.mlm_count == 3
    assert out.mlm_correct == (logits.argmax(-1) == words).sum()
    sentence = F.cross_entropy(out.sentence_logits_B2, orders)
    torch.testing.assert_close(out.sentence_loss_sum / 3, sentence)
    torch.testing.assert_close(out.loss, out.mlm_loss_sum / 3 + sentence)


def test_pretraining_predicts_at_positions_only_when_asked() -> None:
    model = PretrainingModel(CONFIG)
    none = model(IDS)
    assert none.mlm_logits_MV is None
    assert none.sentence_logits_B2.shape == (3, 2)
    every = torch.arange(27)
    everywhere = model(IDS, masked_positions_M=every).mlm_logits_MV
    assert everywhere.shape == (27, 40)
    where = torch.tensor([3, 26])
    torch.testing.assert_close(model(IDS, masked_positions_M=where).mlm_logits_MV, everywhere[where])
    labels = torch.full((27,), -100)
    labels[where] = torch.tensor([5, 6])
    masked = model(IDS, masked_positions_M=where, masked_labels_M=labels[where])
    both = model(IDS, masked_positions_M=every, masked_labels_M=labels)
    torch.testing.assert_close(masked.loss, both.loss)
    with pytest.raises(InputError, match="masked_positions_M"):
        model(IDS, masked_labels_M=labels)


def test_pretraining_without_a_sentence_loss_leaves_its_head_alone() -> None:
    model = PretrainingModel(CONFIG)
    out = model(IDS, masked_positions_M=torch.tensor([4]), masked_labels_M=torch.tensor([5]))
    assert out.sentence_loss_sum is None
    out.loss.backward()
    assert model.sentence.weight.grad is None
    assert model.encoder.embeddings.word.weight.grad is not None


def test_the_decoder_is_the_word_table() -> None:
    model = PretrainingModel(CONFIG)
    names = [name for name, _ in model.named_parameters() if name.startswith("mlm")]
    assert sorted(names) == [
        "mlm.bias",
        "mlm.norm.bias",
        "mlm.norm.weight",
        "mlm.transform.bias",
        "mlm.transform.weight",
    ]


def test_classifier_and_regressor() -> None:
    classes, labels = SequenceClassifier(CONFIG, 4), torch.tensor([3, 0, 1])
    out = classes(IDS, MASK, None, labels)
    assert out.logits.shape == (3, 4)
    torch.testing.assert_close(out.loss, F.cross_entropy(out.logits, labels))
    pooled = classes.encoder.pool_first(classes.encoder(IDS, MASK).sequence_BSH[:, 0])
    torch.testing.assert_close(out.logits, classes.get_submodule("classifier")(pooled))
    regressor, targets = SequenceRegressor(CONFIG), torch.tensor([0.5, 2.0, 5.0])
    scored = regressor(IDS, MASK, None, targets)
    assert scored.logits.shape == (3, 1)
    torch.testing.assert_close(scored.loss, (scored.logits[:, 0] - targets).pow(2).mean())
    with pytest.raises(ConfigError, match="num_labels is 0"):
        SequenceClassifier(CONFIG, 0)


def test_choices_are_scored_alone_and_compared() -> None:
    model, labels = MultipleChoice(CONFIG), torch.tensor([1])
    out = model(IDS[None], MASK[None], None, labels)
    assert out.logits.shape == (1, 3)
    torch.testing.assert_close(out.loss, F.cross_entropy(out.logits, labels))
    for choice in range(3):
        alone = model(IDS[None, choice, None], MASK[None, choice, None]).logits
        torch.testing.assert_close(alone[0, 0], out.logits[0, choice])


def test_token_labels_of_minus_100_do_not_count() -> None:
    model, labels = TokenClassifier(CONFIG, 5), torch.full(IDS.shape, -100)
    labels[0, 2], labels[1, 3] = 4, 0
    out = model(IDS, MASK, None, labels)
    assert out.logits.shape == (3, 9, 5)
    expected = F.cross_entropy(out.logits[[0, 1], [2, 3]], torch.tensor([4, 0]))
    torch.testing.assert_close(out.loss, expected)
    none = model(IDS, MASK, None, torch.full(IDS.shape, -100)).loss
    assert none == 0, "no label, no loss, no NaN"


def test_span_positions_outside_the_window_do_not_count() -> None:
    model = SpanExtractor(CONFIG)
    starts, ends = torch.tensor([2, 9, 4]), torch.tensor([3, 12, -1])
    out = model(IDS, MASK, None, starts, ends)
    start_loss = F.cross_entropy(out.start_logits_BS[[0, 2]], starts[[0, 2]])
    end_loss = F.cross_entropy(out.end_logits_BS[[0]], ends[[0]])
    torch.testing.assert_close(out.loss, (start_loss + end_loss) / 2)
    assert model(IDS).loss is None


def _squad2_inputs() -> tuple[Squad2Model, torch.Tensor]:
    blocked = torch.zeros_like(IDS)
    blocked[:, 1:4] = 1
    blocked[2, 6:] = 1
    return Squad2Model(CONFIG).eval(), blocked


def test_squad2_end_depends_on_the_start_as_a_map_of_the_pair() -> None:
    model, blocked = _squad2_inputs()
    starts = torch.tensor([4, 5, 0])
    out = model(IDS, MASK, None, blocked, starts)
    sequence = model.encoder(IDS, MASK).sequence_BSH
    start_hidden = sequence[torch.arange(3), starts][:, None].expand(-1, 9, -1)
    pairs = model.end_hidden(torch.cat((sequence, start_hidden), dim=-1))
    logits = model.end(model.end_norm(torch.tanh(pairs))).squeeze(-1)
    expected = logits.masked_fill(blocked.bool(), -1e30).log_softmax(-1)
    torch.testing.assert_close(out.end_log_probs_BS, expected, rtol=1e-5, atol=1e-5)
    assert out.loss is None


def test_squad2_beam_agrees_with_the_training_outputs() -> None:
    model, blocked = _squad2_inputs()
    beam = model(IDS, MASK, None, blocked)
    assert beam.end_top_index_BKK.shape == (3, 5, 5)
    for rank in range(3):  # the last row has three places for an answer
        starts = beam.start_top_index_BK[:, rank]
        forced = model(IDS, MASK, None, blocked, starts)
        best = forced.start_log_probs_BS.topk(3).values[:, rank]
        torch.testing.assert_close(beam.start_top_log_probs_BK[:, rank], best)
        ends = forced.end_log_probs_BS.topk(3).values
        found = beam.end_top_log_probs_BKK[:, rank, :3]
        torch.testing.assert_close(found, ends, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(beam.answer_logits_B, forced.answer_logits_B)
    allowed = blocked.bool().logical_not()
    for row in range(3):
        assert allowed[row, beam.start_top_index_BK[row, :3]].all()
        assert allowed[row, beam.end_top_index_BKK[row, :3, :3].flatten()].all()


def test_squad2_loss_by_hand() -> None:
    model, blocked = _squad2_inputs()
    starts, ends, impossible = (torch.tensor([4, 5, 0]), torch.tensor([6, 5, 0]), torch.tensor([0, 0, 1]))
    out = model(IDS, MASK, None, blocked, starts, ends, impossible)
    rows = torch.arange(3)
    start_loss = -out.start_log_probs_BS[rows, starts].mean()
    end_loss = -out.end_log_probs_BS[rows, ends].mean()
    answer = F.binary_cross_entropy_with_logits(out.answer_logits_B, impossible.float())
    torch.testing.assert_close(out.loss, 0.5 * (start_loss + end_loss) + 0.5 * answer)
    out.loss.backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if "pooler" not in n)


def test_squad2_beam_is_no_wider_than_the_window() -> None:
    model, _ = _squad2_inputs()
    assert model(IDS[:, :4]).end_top_index_BKK.shape == (3, 4, 4)


def test_the_span_head_drops_out_only_if_asked_and_in_training() -> None:
    for rate, differs in ((0.0, False), (0.5, True)):
        model = SpanExtractor(replace(CONFIG, classifier_dropout=rate)).train()
        one, other = (model(IDS, MASK).start_logits_BS for _ in range(2))
        assert (not torch.equal(one, other)) == differs
    assert torch.equal(model.eval()(IDS).start_logits_BS, model(IDS).start_logits_BS)


@pytest.mark.parametrize("head", [head for head, row in HEADS.items() if not row.pretrained])
def test_a_task_head_answers_by_the_names_of_its_row_and_has_a_loss(head: Head) -> None:
    labels = {"num_labels": 3} if HEADS[head].has_classes else {}
    model = head_class(head)(CONFIG, **labels).eval()
    assert isinstance(model, TaskModel)
    inputs = HeadInputs(IDS, MASK, forbidden_RS=MASK == 0, num_choices=3)
    outputs = model.named_outputs(inputs)
    assert tuple(outputs) == HEADS[head].output_names
    targets = {
        "classification": torch.tensor([0, 2, 1]),
        "regression": torch.tensor([0.5, 2.0, 5.0]),
        "multiple_choice": torch.tensor([2]),
        "token_classification": torch.where(MASK.bool(), IDS % 3, -100),
        "span": torch.tensor([[4, 6, 0], [5, 5, 0], [0, 0, 1]]),
        "squad2": torch.tensor([[4, 6, 0], [5, 5, 0], [0, 0, 1]]),
    }[head]
    loss = model.task_loss(inputs, targets)
    torch.autograd.backward(loss)
    assert loss.ndim == 0
    assert loss > 0
    states = model.encoder(IDS, MASK).sequence_BSH
    rows = model.rows(inputs)
    read = model.read(states if rows is None else states.flatten(0, 1)[rows], inputs)
    for name, tensor in outputs.items():
        torch.testing.assert_close(read[name], tensor)


def test_several_labels_of_a_text_are_judged_one_by_one() -> None:
    model, flags = SequenceClassifier(CONFIG, 2), torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    inputs = HeadInputs(IDS, MASK)
    logits = model.named_outputs(inputs)["logits"]
    expected = F.binary_cross_entropy(logits.sigmoid(), flags)
    torch.testing.assert_close(model.task_loss(inputs, flags), expected)


def test_the_pretraining_model_and_the_encoder_read_by_name_too() -> None:
    model = PretrainingModel(CONFIG).eval()
    inputs = HeadInputs(IDS, MASK, masked_M=torch.tensor([3, 20]))
    states = model.encoder(IDS, MASK, rows_R=model.rows(inputs)).sequence_BSH
    outputs, out = model.read(states, inputs), model(IDS, MASK, None, torch.tensor([3, 20]))
    assert set(outputs) == set(HEADS["pretraining"].output_names)
    torch.testing.assert_close(outputs["masked_logits"], out.mlm_logits_MV)
    torch.testing.assert_close(outputs["sop_logits"], out.sentence_logits_B2)
    pooled = model.encoder.read(states[:3], inputs)
    assert tuple(pooled) == HEADS["encoder"].output_names
    torch.testing.assert_close(pooled["pooler_output"], outputs["pooler_output"])
