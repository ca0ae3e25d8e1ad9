"""Rows, truncation, batches: laws of what the encoder is given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.common.errors import InputError
from litebert.model.config import IGNORED_LABEL
from litebert.predict.inputs import pad, split
from litebert.tasks.base import Example, Form
from litebert.tasks.forms.rows import cut_pair
from litebert.tasks.forms.tags import TagForm
from litebert.tasks.forms.texts import (
    ChoiceForm,
    ClassificationForm,
    MultiLabelForm,
    RegressionForm,
    fill_question,
    option_index,
)
from word_tokenizer import WordTokenizer

sizes = st.integers(0, 60)


@given(sizes, sizes, st.integers(2, 60))
def test_pairs_lose_tokens_one_at_a_time_from_the_longer(a: int, b: int, budget: int) -> None:
    first, second = a, b
    while first + second > budget:
        if first > second:
            first -= 1
        else:
            second -= 1
    assert cut_pair(a, b, budget) == (first, second)


def test_pair_layout(words: WordTokenizer) -> None:
    form = ClassificationForm(("no", "yes"))
    (feature,) = form.features([Example("0", "a b c", "d e", gold=1)], words, max_length=7)
    (row,) = feature.rows
    a, b, d, e = (words.vocabulary[w] for w in "abde")
    assert row.ids.tolist() == [words.cls_id, a, b, words.sep_id, d, e, words.sep_id]
    assert row.second == 4
    assert feature.target == 1


def test_batches_pad_and_mask(words: WordTokenizer) -> None:
    form = MultiLabelForm(("x", "y"))
    examples = [Example("0", "a b c", gold=(1, 0)), Example("1", "a", gold=(0, 1))]
    features = form.features(examples, words, 16)
    batch = pad(features, words.pad_id)
    assert batch.input_ids.shape == (2, 5)
    assert batch.attention_mask is not None
    assert batch.attention_mask.sum(axis=1).tolist() == [5, 3]
    assert (batch.input_ids[1, 3:] == words.pad_id).all()
    assert batch.targets is not None
    assert batch.targets.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert pad(features[:1], words.pad_id).attention_mask is None


def test_predictions_of_texts() -> None:
    examples = [Example("0", "a")]
    form = ClassificationForm(("no", "yes"))
    features = [type("F", (), {"example": 0})()]
    (prediction,) = form.decode(examples, features, [{"logits": np.array([0.0, 2.0], np.float32)}])
    assert form.describe(examples[0], prediction)["label"] == "yes"
    assert sum(prediction.scores) == pytest.approx(1.0)
    flags = MultiLabelForm(("x", "y", "z"))
    logits = np.array([3.0, -3.0, 0.0], np.float32)
    (prediction,) = flags.decode(examples, features, [{"logits": logits}])
    assert flags.describe(examples[0], prediction)["labels"] == ["x", "z"]
    score = {"logits": np.array([2.5], np.float32)}
    (prediction,) = RegressionForm().decode(examples, features, [score])
    assert prediction.value == 2.5


def test_a_model_with_other_labels_is_refused() -> None:
    form = ClassificationForm(("no", "yes"))
    with pytest.raises(InputError, match="3 labels, the task 2"):
        form.decode([Example("0", "a")], [type("F", (), {"example": 0})()], [{"logits": np.zeros(3, np.float32)}])


def test_a_tagger_with_other_labels_is_refused(words: WordTokenizer) -> None:
    form = TagForm(("O", "B-X"))
    example = Example("0", "", words=("a", "b"))
    features = form.features([example], words, 8)
    for num_labels in (1, 3):
        outputs = [{"token_logits": np.zeros((4, num_labels), np.float32)}]
        with pytest.raises(InputError, match=f"the model has {num_labels} labels, the task 2"):
            form.decode([example], features, outputs)


def test_ensembles_average_probabilities() -> None:
    form = ClassificationForm(("no", "yes"))
    sure = {"logits": np.array([0.0, 10.0], np.float32)}
    unsure = {"logits": np.array([0.5, 0.0], np.float32)}
    logits = form.combine([sure, unsure, unsure])["logits"]
    probabilities = np.exp(logits) / np.exp(logits).sum()
    expected = (1 / (1 + np.exp(-10.0)) + 2 / (1 + np.exp(0.5))) / 3
    assert probabilities[1] == pytest.approx(expected, rel=1e-5)


def test_choices_keep_the_end_of_the_question_and_cut_the_passage(words: WordTokenizer) -> None:
    form = ChoiceForm(max_question_length=4)
    example = Example("0", "p1 p2 p3 p4 p5 p6", "q1 q2 q3", options=("o1", "o2 o3"), gold=1)
    (feature,) = form.features([example], words, max_length=10)
    decoded = {id: word for word, id in words.vocabulary.items()}
    texts = [[decoded.get(int(i), "|") for i in row.ids] for row in feature.rows]
    assert texts == [
        ["|", "p1", "p2", "p3", "|", "q1", "q2", "q3", "o1", "|"],
        ["|", "p1", "p2", "p3", "|", "q2", "q3", "o2", "o3", "|"],
    ]
    batch = pad([feature, feature], words.pad_id)
    assert batch.input_ids.shape == (4, 10)
    assert batch.num_choices == 2
    assert batch.targets is not None
    assert batch.targets.tolist() == [1, 1]


def test_cloze_questions_are_filled() -> None:
    assert fill_question("We _ and _ it.", "see") == "We see and see it."
    assert fill_question("Why?", "Because.") == "Why? Because."
    assert fill_question("", "Because.") == "Because."


def test_option_names() -> None:
    assert [option_index(v, 4) for v in ("A", "d", 2, "3", "E", "x", "-1", True)] == [
        0, 3, 2, 3, None, None, None, None,
    ]  # fmt: skip


def test_tags_stand_at_the_first_piece_and_long_texts_are_cut_between_words(words: WordTokenizer) -> None:
    form = TagForm(("O", "B-X"))
    example = Example("0", "", words=("a-b", "c", "d"), gold=(1, 0, 1))
    features = form.features([example], words, max_length=6)
    assert features[0].target is not None
    assert features[0].target.tolist() == [IGNORED_LABEL, 1, IGNORED_LABEL, IGNORED_LABEL, 0, IGNORED_LABEL]
    batch = pad(features, words.pad_id)
    logits = np.zeros((2, 6, 2), np.float32)
    logits[0, 1, 1] = logits[1, 1, 1] = 5.0
    outputs = split(features, {"token_logits": logits})
    assert outputs[1]["token_logits"].shape == (3, 2)
    (prediction,) = form.decode([example], features, outputs)
    assert prediction.value == (1, 0, 1)
    assert batch.targets is not None
    assert batch.targets.shape == (2, 6)


def test_every_word_gets_a_tag_even_one_of_no_pieces(words: WordTokenizer) -> None:
    words.encode_batch(["x"])
    form = TagForm(("O", "B-X"))
    example = Example("0", "", words=("x", " ", "y"))
    (feature,) = form.features([example], words, 10)
    assert feature.word_positions is not None
    assert len(feature.word_positions) == 3
    assert feature.rows[0].ids[2] == words.unk_id


@pytest.mark.parametrize(
    ("form", "record", "message"),
    [
        (RegressionForm(), {}, "no 'text'"),
        (RegressionForm(), {"text": "  "}, "'text' is empty"),
        (RegressionForm(), {"text": 3}, "should be a text"),
        (RegressionForm(), {"textt": "a"}, "no 'text'"),
        (ChoiceForm(), {"text": "p", "options": ["a"]}, "at least 2"),
        (ChoiceForm(), {"text": "p", "options": "ab"}, "list of texts"),
    ],
)
def test_requests_are_refused_in_one_line(form: Form, record: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        form.parse(record, "0")
