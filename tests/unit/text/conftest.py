"""A vocabulary on which the digit-comma rule has something to do."""

from __future__ import annotations

import pytest

from litebert.text.tokenizer import Tokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer


@pytest.fixture(scope="session")
def with_digit_commas(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer that has learnt pieces such as `▁1998,` and `7,`, which the rule splits."""
    folder = tmp_path_factory.mktemp("commas")
    lines = [f"in {1990 + n % 9}, at {n}, a{n % 7}, b{n % 10}, and {n}{n}" for n in range(200)]
    (folder / "text.txt").write_text("\n".join(lines * 20), encoding="utf-8")
    config = TokenizerTrainConfig(
        input=(folder / "text.txt",), out=folder / "tok", vocab_size=140, digit_comma="off"
    )
    return train_tokenizer(config)
