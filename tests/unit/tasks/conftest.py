"""A tokenizer of whole words for all tests of tasks."""

from __future__ import annotations

import pytest

from word_tokenizer import WordTokenizer


@pytest.fixture(scope="session")
def words() -> WordTokenizer:
    return WordTokenizer()  # type: ignore[abstract]  # it does what tasks ask for
