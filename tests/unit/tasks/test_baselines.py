"""Linear models of a task: words decide where words decide, and numbers are predicted as such."""

from __future__ import annotations

import numpy as np
import pytest

from litebert.tasks.base import Example
from litebert.tasks.baselines import bags_of_words, baseline_of, is_linear, linear_predictions, word_predictions
from litebert.tasks.forms.similarity import SimilarityForm
from litebert.tasks.forms.spans import SpanForm
from litebert.tasks.forms.texts import ClassificationForm, MultiLabelForm, RegressionForm

FORM = ClassificationForm(("bad", "good"))


def example(text: str, gold: float, text_pair: str | None = None) -> Example:
    return Example(text, text, text_pair, gold=gold)


TRAIN = [example("A fine film", 1), example("a dull film !", 0), example("fine", 1), example("dull", 0)] * 4
DEV = [example("the finest, no: a fine one", 1), example("dull", 0)]


def test_words_decide() -> None:
    predictions = word_predictions(FORM, TRAIN, DEV)
    assert [(p.id, p.value) for p in predictions] == [(e.id, e.gold) for e in DEV]
    assert all(isinstance(p.value, int) for p in predictions)


def test_words_are_counted_in_lower_case_and_pairs_apart() -> None:
    train, dev = bags_of_words([example("Go go !", 0)], [example("GO now", 0)])
    assert train.toarray().tolist() == [[1.0, 2.0]]  # ! go
    assert dev.toarray().tolist() == [[0.0, 1.0]]
    train, dev = bags_of_words([example("a", 0, "b b")], [example("b", 0, "a b")])
    assert train.toarray().tolist() == [[1.0, 2.0]]
    assert dev.toarray().tolist() == [[0.0, 1.0]]


def test_numbers_come_from_ridge_regression() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(3.0, 2.0, (200, 4)).astype(np.float32)
    golds = vectors @ np.array([1.0, -2.0, 0.0, 0.5]) + 7.0
    examples = [example(str(index), float(gold)) for index, gold in enumerate(golds)]
    form = RegressionForm()
    found = linear_predictions(form, examples[:150], examples[150:], vectors[:150], vectors[150:])
    assert form.score(examples[150:], found)["pearson"] > 0.99
    assert [p.value for p in found] == pytest.approx(golds[150:].tolist(), abs=0.2)


def test_one_class_is_always_said() -> None:
    found = word_predictions(FORM, TRAIN[:1], DEV)
    assert [p.value for p in found] == [1, 1]


def test_only_classes_and_numbers_are_linear() -> None:
    assert is_linear(FORM)
    assert is_linear(RegressionForm())
    assert not is_linear(MultiLabelForm(("a",)))
    assert not is_linear(SpanForm())


def test_words_and_bm25_find_the_text_that_shares_rare_words() -> None:
    pytest.importorskip("bm25s")
    documents = [f"the story of the {name} and the sea" for name in ("whale", "crab", "gull")]
    examples = [
        Example(str(i), f"the {name}, the sea", text, gold=1)
        for i, (name, text) in enumerate(zip(("whale", "crab", "gull"), documents, strict=True))
    ]
    form = SimilarityForm()
    for name in ("words", "bm25"):
        found = baseline_of(name, form, [], examples)
        assert found is not None
        assert [prediction.value for prediction in found] == [1, 1, 1]


def test_bm25_does_not_score_pairs() -> None:
    pair = [Example("0", "a dog", "a dog", gold=5.0), Example("1", "a cat", "two dogs", gold=0.0)]
    assert baseline_of("bm25", SimilarityForm(), [], pair) is None
    words = baseline_of("words", SimilarityForm(), [], pair)
    assert words is not None
    assert words[0].value == pytest.approx(1)
    assert words[1].value == 0
