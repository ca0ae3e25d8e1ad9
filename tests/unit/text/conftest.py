"""A vocabulary on which the digit-comma rule has something to do."""

from __future__ import annotations

import random

import pytest

from litebert.text.tokenizer import Tokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer


@pytest.fixture(scope="session")
def with_digit_commas(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer that has learnt pieces such as `▁1998,` and `7,`, which the rule splits."""
    folder = tmp_path_factory.mktemp("commas")
    draw = random.Random(1)
    words = [f"{year}," for year in range(1990, 1999)] * 5 + ["in", "and", "of", "at"]
    words += [f"{letter}{number}," for letter in "abcdef" for number in range(10)]
    words += [str(number) for number in range(50)]
    lines = [" ".join(draw.choices(words, k=9)) for _ in range(800)]
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    config = TokenizerTrainConfig(
        input=(folder / "text.txt",),
        out=folder / "tok",
        vocab_size=120,
        shrink=True,
        digit_comma="off",
    )
    return train_tokenizer(config)
