"""Metrics at their edges: constant sides, empty answers, articles, several golds, broken tags."""

from __future__ import annotations

import pytest

from litebert.common.errors import DataError
from litebert.tasks import metrics
from litebert.tasks.squad_metrics import exact_match, normalize_answer, squad1_scores, squad2_scores, token_f1


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        ("The  Cat!", "cat"),
        ("an a the", ""),
        ("theory of a man", "theory of man"),
        ("U.S.", "us"),
        ("state-of-the-art", "stateoftheart"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation is dropped
        ("", ""),
    ],
)
def test_answers_are_normalised_as_the_official_scripts_do(raw: str, normal: str) -> None:
    assert normalize_answer(raw) == normal


def test_token_f1_counts_repeated_words() -> None:
    assert token_f1("new york new york", "new york") == pytest.approx(2 * 1.0 * 0.5 / 1.5)
    assert token_f1("cat", "dog") == 0.0
    assert token_f1("the", "a") == 0.0  # nothing left to share
    assert exact_match("the", "a") == 1.0


def test_squad1_takes_the_best_gold_and_scores_unanswered_questions_zero() -> None:
    golds = {"q1": ["red", "the red cat"], "q2": ["blue"]}
    assert squad1_scores(golds, {"q1": "red cat"}) == {"exact_match": 50.0, "f1": 50.0}


def test_squad2_scores_no_answers() -> None:
    golds = {"has": ["cat"], "none": [], "article": ["the"]}
    scores = squad2_scores(golds, {"has": "cat", "none": "", "article": ""})
    assert (scores["exact"], scores["f1"], scores["total"]) == (100.0, 100.0, 3)
    assert scores["HasAns_total"] == 2
    assert scores["NoAns_total"] == 1
    assert "best_exact" not in scores


def test_squad2_without_unanswerable_questions_has_no_such_keys() -> None:
    scores = squad2_scores({"q": ["cat"]}, {"q": "cat"})
    assert "HasAns_exact" in scores
    assert "NoAns_exact" not in scores


def test_squad2_threshold_turns_answers_into_none() -> None:
    golds = {"has": ["cat"], "none": []}
    predictions = {"has": "cat", "none": "dog"}
    odds = {"has": 0.2, "none": 0.9}
    assert squad2_scores(golds, predictions, odds, threshold=0.5)["exact"] == 100.0
    assert squad2_scores(golds, predictions, odds, threshold=0.1)["exact"] == 50.0
    best = squad2_scores(golds, predictions, odds)
    assert (best["best_exact"], best["best_exact_thresh"]) == (100.0, 0.2)


def test_squad2_refuses_missing_predictions() -> None:
    with pytest.raises(DataError, match="1 of 2 questions have no prediction"):
        squad2_scores({"a": ["x"], "b": ["y"]}, {"a": "x"})


def test_constant_sides_correlate_with_nothing() -> None:
    assert metrics.matthews([1, 1, 1], [0, 1, 0]) == 0.0
    assert metrics.matthews([0, 1, 0], [1, 1, 1]) == 0.0
    assert metrics.pearson([1.0, 1.0], [0.0, 2.0]) == 0.0
    assert metrics.f1([0, 0], [0, 0]) == 0.0


def test_spearman_sees_only_order() -> None:
    gold = [0.1, 5.0, 2.0, 3.0]
    assert metrics.spearman(gold, [value**3 for value in gold]) == pytest.approx(1.0)
    assert metrics.pearson(gold, [value**3 for value in gold]) < 0.99


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        (["B-PER", "I-PER", "O"], {("PER", 0, 2)}),
        (["I-PER", "I-PER"], {("PER", 0, 2)}),
        (["B-PER", "B-PER"], {("PER", 0, 1), ("PER", 1, 2)}),
        (["B-PER", "I-LOC"], {("PER", 0, 1), ("LOC", 1, 2)}),
        (["S-LOC", "B-ORG", "E-ORG", "E-ORG"], {("LOC", 0, 1), ("ORG", 1, 3), ("ORG", 3, 4)}),
        (["B", "I", "O", "B"], {("_", 0, 2), ("_", 3, 4)}),
        (["O", "O"], set()),
    ],
)
def test_entities_of_tags(tags: list[str], found: set[tuple[str, int, int]]) -> None:
    assert metrics.entities(tags) == found


def test_entity_scores_need_the_whole_entity() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"]]
    predicted = [["B-PER", "O", "O", "B-LOC"]]
    scores = metrics.entity_scores(gold, predicted)
    assert scores == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "accuracy": 0.75}


def test_confusion_matrix_rows_are_gold() -> None:
    assert metrics.confusion_matrix([0, 0, 1], [0, 1, 1], 2) == [[1, 1], [0, 1]]
