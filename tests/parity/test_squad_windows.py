"""Every gold answer of SQuAD comes back from some window, to the character where pieces allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from litebert.tasks.base import Answer, Example
from litebert.tasks.benchmarks.squad import SQUAD_TASKS
from litebert.tasks.forms.spans import SpanForm
from litebert.tasks.problems import RowProblems
from litebert.text.tokenizer import Tokenizer

MAX_LENGTH, STRIDE = 384, 128


def answers_of(example: Example) -> list[Answer]:
    assert isinstance(example.gold, tuple)
    return [answer for answer in example.gold if isinstance(answer, Answer)]


def one_example_per_answer(examples: list[Example]) -> list[Example]:
    return [
        replace(example, id=f"{example.id}-{number}", gold=(answer,))
        for example in examples
        for number, answer in enumerate(answers_of(example))
    ]


def num_between_pieces(examples: list[Example], tokenizer: Tokenizer) -> int:
    """Count the answers whose two ends are ends of pieces, without looking at windows."""
    count, text = 0, None
    for example in examples:
        if example.text != text:
            text = example.text
            encoding = tokenizer.encode_with_offsets(text)
            starts, ends = set(encoding.starts), set(encoding.ends)
        (answer,) = answers_of(example)
        count += answer.start in starts and answer.start + len(answer.text) in ends
    return count


@pytest.mark.parametrize(("split", "limit"), [("dev", None), ("train", 2000)])
def test_gold_answers_come_back(
    shared: Path, record_exactness: Callable[[str, float, str], None], split: str, limit: int | None
) -> None:
    folder = shared / "fixtures" / "official"
    tokenizer = Tokenizer.load(folder)
    problems = RowProblems()
    examples = SQUAD_TASKS["squad1"].read(shared / "data" / "squad", split, problems)[:limit]
    assert len(problems) == 0
    answers = one_example_per_answer(examples)
    form = SpanForm(stride=STRIDE)
    features = form.features(answers, tokenizer, MAX_LENGTH)
    assert max(map(len, features)) <= MAX_LENGTH
    alignment = form.window_counts(answers, features)
    share = alignment["widened"] / len(answers)
    record_exactness(
        f"SQuAD 1.1 {split}: share of {len(answers):,} gold answers widened to whole pieces",
        share,
        "pytest tests/parity/test_squad_windows.py",
    )
    assert alignment["lost"] == 0
    assert alignment["exact"] == num_between_pieces(answers, tokenizer)
    assert share < 0.006
