"""Where a model goes wrong: its worst mistakes."""

from __future__ import annotations

from litebert.tasks.base import Examples, Form, Predictions

_LONGEST_TEXT = 400


def worst_mistakes(
    form: Form, examples: Examples, predictions: Predictions, count: int = 20
) -> list[dict[str, object]]:
    """Return the wrong predictions the model was surest of, worst first."""
    ranked = []
    for example, prediction in zip(examples, predictions, strict=True):
        badness = 0.0 if example.gold is None else form.badness(example, prediction)
        if badness > 0:
            ranked.append((badness, example, prediction))
    ranked.sort(key=lambda entry: -entry[0])
    return [
        {
            "id": example.id,
            "text": _shorten(example.text or " ".join(example.words)),
            **({} if example.text_pair is None else {"text_pair": _shorten(example.text_pair)}),
            "gold": form.named(example, example.gold),
            "predicted": form.named(example, prediction.value),
            "badness": round(badness, 4),
        }
        for badness, example, prediction in ranked[:count]
    ]


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
