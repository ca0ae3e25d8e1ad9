"""Vocabularies of several languages, and one on which the digit-comma rule has work to do."""

from __future__ import annotations

import random

import pytest

from litebert.text.normalize import Normalization
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer

SENTENCES = (
    "Die Größe der Tür überraschte Jürgen, denn große Türen sind hier üblich.",
    "Så här ser det ut på sjön, sa han; så får det vara.",
    "Le garçon a mangé où l'été dernier nous étions à l'hôtel.",
    "Майский день был тёплый, и йод стоял на полке.",
    "Ο ΚΑΛΟΣ ΦΙΛΟΣ ήρθε στους δρόμους της πόλης.",
    "Bugün hava çok güzel, ışık İstanbul'un üstünde parlıyor.",
    "Tiếng Việt có nhiều dấu và những chữ cái đặc biệt.",
    "हिन्दी में संयुक्त अक्षर और मात्राएँ होती हैं।",
    "한국어 문장은 띄어쓰기를 하고 학교에서 배웁니다.",
    "日本語のがぎぐげごとカタカナはピアノのようです。",
    "我们在学校学习中文，天气很好。",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
    "اللغة العربية تُكتب من اليمين إلى اليسار.",
    "The size of the door is 1998, and that is all.",
)
"""Written for these tests: letters that lose something when accents are dropped."""


@pytest.fixture(scope="session")
def sentences() -> tuple[str, ...]:
    return SENTENCES


@pytest.fixture(scope="session", params=["official", "keep-accents", "none"])
def in_languages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    """A tokenizer of many languages, for each normalisation."""
    rule: Normalization = request.param
    folder = tmp_path_factory.mktemp("languages")
    (folder / "text.txt").write_text("\n".join(SENTENCES * 4), encoding="utf-8")
    config = TokenizerTrainConfig(
        input=(folder / "text.txt",),
        out=folder / "tok",
        vocab_size=600,
        shrink=True,
        character_coverage=1.0,
        normalization=rule,
    )
    return train_tokenizer(config)


@pytest.fixture(scope="session")
def with_digit_commas(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    """A tokenizer that has learnt pieces such as `▁1998,` and `7,`, which the rule splits."""
    folder = tmp_path_factory.mktemp("commas")
    draw = random.Random(1)
    words = [f"{year}," for year in range(1990, 1999)] * 5 + ["in", "and", "of", "at"]
    words += [f"{letter}{number}," for letter in "abcdef" for number in range(10)]
    words += [str(number) for number in range(50)]
    lines = [" ".join(draw.choices(words, k=9)) for _ in range(800)]
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    config = TokenizerTrainConfig(
        input=(folder / "text.txt",), out=folder / "tok", vocab_size=120, shrink=True, digit_comma="off"
    )
    return train_tokenizer(config)
