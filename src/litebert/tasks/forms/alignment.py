"""How many gold answers the windows hold, to the character or widened to whole pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litebert.tasks.base import Answer, Example, Feature


@dataclass(frozen=True)
class AnswerAlignment:
    """Counts over the answerable examples.

    Args:
        exact: some window gives back the answer character for character.
        widened: the answer starts or ends inside a piece; its target is the whole pieces.
        lost: no window holds the whole answer.
    """

    exact: int
    widened: int
    lost: int


def answer_alignment(examples: Sequence[Example], features: Sequence[Feature]) -> AnswerAlignment:
    """Compare the target of each window with the first gold answer of its example.

    Example:
        >>> answer_alignment(examples, SpanForm().features(examples, tokenizer, 384))
        AnswerAlignment(exact=10517, widened=53, lost=0)
    """
    recovered: dict[int, bool] = {}
    for feature in features:
        if feature.target is None or feature.passage is None or feature.target[2]:
            continue
        answer = _first_answer(examples[feature.example])
        if answer is None:
            continue
        first = feature.passage.first
        start = int(feature.passage.starts[int(feature.target[0]) - first])
        end = int(feature.passage.ends[int(feature.target[1]) - first])
        is_exact = (start, end) == (answer.start, answer.start + len(answer.text))
        recovered[feature.example] = recovered.get(feature.example, False) or is_exact
    answerable = sum(_first_answer(example) is not None for example in examples)
    exact = sum(recovered.values())
    return AnswerAlignment(exact, len(recovered) - exact, answerable - len(recovered))


def _first_answer(example: Example) -> Answer | None:
    if not isinstance(example.gold, tuple) or not example.gold:
        return None
    answer = example.gold[0]
    return answer if isinstance(answer, Answer) else None
