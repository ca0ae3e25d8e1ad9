"""The official SQuAD 1.1 and 2.0 scores: exact match, F1, and the best no-answer thresholds."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

from litebert.common.errors import DataError

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
Golds = Mapping[str, Sequence[str]]
Texts = Mapping[str, str]
Numbers = Mapping[str, float]


def normalize_answer(text: str) -> str:
    """Return the words that count: lower case, no ASCII punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(gold: str, predicted: str) -> float:
    """Return 1 if both normalise to the same words."""
    return float(normalize_answer(gold) == normalize_answer(predicted))


def token_f1(gold: str, predicted: str) -> float:
    """Return the F1 of the two bags of words; 0 if they share none."""
    gold_words, words = normalize_answer(gold).split(), normalize_answer(predicted).split()
    shared = sum((Counter(gold_words) & Counter(words)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(words), shared / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def squad1_scores(golds: Golds, predictions: Texts) -> dict[str, float]:
    """Return ``exact_match`` and ``f1`` by each question's best gold in percent, as the v1.1 script; unanswered: 0."""
    exact = f1 = 0.0
    for question, answers in golds.items():
        if answers and (predicted := predictions.get(question)) is not None:
            exact += max(exact_match(answer, predicted) for answer in answers)
            f1 += max(token_f1(answer, predicted) for answer in answers)
    return {"exact_match": 100.0 * exact / len(golds), "f1": 100.0 * f1 / len(golds)}


def squad2_scores(
    golds: Golds, predictions: Texts, no_answer: Numbers | None = None, threshold: float = 1.0
) -> dict[str, float]:
    """Return the figures of the v2.0 script, in percent.

    A question without golds cannot be answered; the prediction "" means no answer. ``no_answer``,
    how likely each question has none, adds the best thresholds; above ``threshold`` a question
    counts as not answered. One without prediction or odds is a DataError, as in the script.
    """
    _require(golds, predictions, "prediction")
    odds = dict.fromkeys(golds, 0.0) if no_answer is None else no_answer
    _require(golds, odds, "no-answer odds")
    raw: dict[str, dict[str, float]] = {"exact": {}, "f1": {}}
    for question, answers in golds.items():
        # Answers of articles and punctuation alone are dropped, yet the question stays answerable.
        texts = [answer for answer in answers if normalize_answer(answer)] or [""]
        predicted = predictions[question]
        raw["exact"][question] = max(exact_match(text, predicted) for text in texts)
        raw["f1"][question] = max(_f1_with_empty(text, predicted) for text in texts)
    answerable = {question: bool(answers) for question, answers in golds.items()}
    scores: dict[str, float] = {}
    for prefix, wanted in (("", (True, False)), ("HasAns_", (True,)), ("NoAns_", (False,))):
        questions = [question for question in golds if answerable[question] in wanted]
        if not questions:
            continue
        for name, found in raw.items():
            kept = (found[q] if odds[q] <= threshold else float(not answerable[q]) for q in questions)
            scores[f"{prefix}{name}"] = 100.0 * sum(kept) / len(questions)
        scores[f"{prefix}total"] = len(questions)
    if no_answer is not None:
        for name, found in raw.items():
            best, place = best_no_answer_threshold(found, predictions, no_answer, answerable)
            scores |= {f"best_{name}": best, f"best_{name}_thresh": place}
    return scores


def best_no_answer_threshold(
    scores: Numbers, predictions: Texts, no_answer: Numbers, answerable: Mapping[str, bool]
) -> tuple[float, float]:
    """Return the best score in percent over all thresholds, and the threshold that gives it."""
    current = best = float(sum(not value for value in answerable.values()))
    best_threshold = 0.0
    # In the order of their odds each answered question adds its score; one without answer costs 1 if it is given one.
    for question in sorted((q for q in no_answer if q in scores), key=no_answer.__getitem__):
        if answerable[question]:
            current += scores[question]
        elif predictions[question]:
            current -= 1.0
        if current > best:
            best, best_threshold = current, no_answer[question]
    return 100.0 * best / len(scores), best_threshold


def _f1_with_empty(gold: str, predicted: str) -> float:
    """Like :func:`token_f1`, but two answers without words agree (v2.0 only)."""
    if not normalize_answer(gold) or not normalize_answer(predicted):
        return exact_match(gold, predicted)
    return token_f1(gold, predicted)


def _require(golds: Mapping[str, object], given: Mapping[str, object], what: str) -> None:
    if missing := [question for question in golds if question not in given]:
        few = f"{len(missing):,} of {len(golds):,} questions have no {what} (first: {missing[0]})"
        raise DataError(f"{few}; give one for each question")
