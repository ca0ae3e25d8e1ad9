"""Where a model goes wrong: the confusion of its labels and its worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence

from litebert.tasks.base import Answer, Example, Form, Prediction
from litebert.tasks.metrics import confusion_matrix
from litebert.tasks.squad_metrics import token_f1

_LONGEST_TEXT = 400


def label_confusion(
    form: Form, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> dict[str, object] | None:
    """Return ``labels`` and counts ``matrix[gold][predicted]`` of a classification, else None."""
    if form.kind != "classification":
        return None
    gold = [e.gold for e in examples if isinstance(e.gold, int)]
    predicted = [p.value for p in predictions if isinstance(p.value, int)]
    matrix = confusion_matrix(gold, predicted, len(form.labels))
    return {"labels": list(form.labels), "matrix": matrix}


def worst_mistakes(
    form: Form, examples: Sequence[Example], predictions: Sequence[Prediction], count: int = 20
) -> list[dict[str, object]]:
    """Return the wrong predictions the model was surest of, worst first.

    Example:
        >>> worst_mistakes(task.form, dev, predictions)[0]["predicted"]
        'entailment'
    """
    ranked = []
    for example, prediction in zip(examples, predictions, strict=True):
        badness = _badness(form, example, prediction)
        if badness > 0:
            ranked.append((badness, example, prediction))
    ranked.sort(key=lambda entry: -entry[0])
    return [
        {
            "id": example.id,
            "text": _shorten(example.text or " ".join(example.words)),
            **({} if example.text_pair is None else {"text_pair": _shorten(example.text_pair)}),
            "gold": _gold(form, example),
            "predicted": _predicted(form, example, prediction),
            "badness": round(badness, 4),
        }
        for badness, example, prediction in ranked[:count]
    ]


def _badness(form: Form, example: Example, prediction: Prediction) -> float:
    """How wrong and how sure: 0 for a right prediction."""
    gold, value = example.gold, prediction.value
    if gold is None:
        return 0.0
    if form.kind == "regression":
        assert isinstance(gold, (int, float))
        assert isinstance(value, (int, float))
        return abs(float(gold) - float(value))
    if form.kind == "span_extraction":
        return _span_badness(example, prediction)
    if isinstance(gold, tuple):
        assert isinstance(value, tuple)
        return float(sum(g != v for g, v in zip(gold, value, strict=True)))
    return max(prediction.scores, default=1.0) if gold != value else 0.0


def _span_badness(example: Example, prediction: Prediction) -> float:
    assert isinstance(example.gold, tuple)
    texts = [answer.text for answer in example.gold if isinstance(answer, Answer)] or [""]
    value = str(prediction.value)
    if any(text == value or token_f1(text, value) > 0 for text in texts):
        return 0.0
    if not value:
        return prediction.no_answer or 0.0
    return prediction.spans[0].probability if prediction.spans else 1.0


def _gold(form: Form, example: Example) -> object:
    gold = example.gold
    if form.kind == "span_extraction":
        assert isinstance(gold, tuple)
        return [answer.text for answer in gold if isinstance(answer, Answer)]
    return _named(form, example, gold)


def _predicted(form: Form, example: Example, prediction: Prediction) -> object:
    return _named(form, example, prediction.value)


def _named(form: Form, example: Example, value: object) -> object:
    if isinstance(value, tuple) and form.kind == "token_classification":
        return " ".join(form.labels[tag] for tag in value)
    if isinstance(value, tuple):
        return [label for label, flag in zip(form.labels, value, strict=True) if flag]
    if isinstance(value, int) and form.kind == "classification":
        return form.labels[value]
    if isinstance(value, int) and form.kind == "multiple_choice":
        return example.options[value]
    return value


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
