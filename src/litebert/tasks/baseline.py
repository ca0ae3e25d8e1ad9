"""What a model must beat: the score of always saying the same, or of guessing a span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from litebert.common.rng import rng
from litebert.tasks.base import Example, Form, Prediction, Span
from litebert.tasks.forms.spans import SpanForm

_SPAN_WORDS = 3
"""Words of a guessed span: about the median answer of SQuAD."""


def baseline_predictions(
    form: Form, train: Sequence[Example], examples: Sequence[Example]
) -> list[Prediction]:
    """Return predictions that look at no text.

    The most frequent class, choice or set of labels of the training data; its mean score; its most
    frequent tag for every word; "no answer" where that is possible, else three words at random.

    Example:
        >>> task.score(dev, baseline_predictions(task.form, train, dev))
        {'accuracy': 0.509}
    """
    golds = [example.gold for example in train]
    if form.kind == "regression":
        mean = float(np.mean([gold for gold in golds if isinstance(gold, (int, float))]))
        return [Prediction(e.id, mean) for e in examples]
    if form.kind == "span_extraction":
        return [_guess(form, example, index) for index, example in enumerate(examples)]
    if form.kind == "token_classification":
        tags = Counter(tag for gold in golds if isinstance(gold, tuple) for tag in gold)
        tag = tags.most_common(1)[0][0]
        assert isinstance(tag, int)
        return [Prediction(e.id, (tag,) * len(e.words)) for e in examples]
    gold = Counter(golds).most_common(1)[0][0]
    assert isinstance(gold, (int, tuple))
    value = gold if isinstance(gold, int) else tuple(v for v in gold if isinstance(v, int))
    return [Prediction(e.id, value) for e in examples]


def _guess(form: Form, example: Example, index: int) -> Prediction:
    if isinstance(form, SpanForm) and form.may_be_unanswerable:
        return Prediction(example.id, "", no_answer=1.0)
    words = example.text.split() or [""]
    start = int(rng(0, "guessed span", index).integers(max(1, len(words) - _SPAN_WORDS + 1)))
    text = " ".join(words[start : start + _SPAN_WORDS])
    return Prediction(example.id, text, spans=(Span(text, 0, 0, 0.0, 1.0),))
