"""Whole words: runs of letters in scripts with spaces, pieces in those without, by Unicode."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from litebert.data.batches.example import Vocabulary
from litebert.data.batches.inspect import words_of
from litebert.text.tokenizer import Tokenizer
from litebert.text.words import begins_words, unicode_borders

SPACELESS = "日我ภ"


def letter_runs(text: str) -> list[str]:
    """The longest stretches of letters and marks, spaces at both ends or not."""
    kept = "".join(c if unicodedata.category(c)[0] in "LM" else " " for c in text)
    return kept.split()


def words(tokenizer: Tokenizer, text: str, rule: str = "unicode") -> list[str]:
    vocabulary = Vocabulary.of(tokenizer, rule)  # type: ignore[arg-type]
    return list(words_of(np.array(tokenizer.encode(text)), tokenizer, vocabulary))


def test_words_are_runs_of_letters(in_languages: Tokenizer, sentences: tuple[str, ...]) -> None:
    spoken = [in_languages.decode(in_languages.encode(line)) for line in sentences]
    checked = 0
    for line in spoken:
        if line[0] in SPACELESS:
            continue
        found = [word for word in words(in_languages, line) if letter_runs(word)]
        assert found == letter_runs(line)
        checked += len(found)
    assert checked > 90
    # By the official rule a piece of foreign letters is a word.
    text = " ".join(sentences)
    assert len(words(in_languages, text, "official")) > len(words(in_languages, text)) + 10


def test_scripts_without_spaces_have_pieces_for_words(in_languages: Tokenizer, sentences: tuple[str, ...]) -> None:
    for line in sentences:
        if line[0] in SPACELESS:
            found = words(in_languages, line)
            assert len(found) > 5
            assert not any(unicodedata.category(word[0]) in ("Mn", "Lm") for word in found)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["▁don", "'", "t"], ["don", "'", "t"]),
        (["▁(", "wor", "d", ")"], ["(", "word", ")"]),
        (["▁", "größ", "e", "n", "19", "98"], ["größen", "19", "98"]),
        (["▁हि", "न", "्दी"], ["हिन्दी"]),
        (["▁使用", "Py", "thon", "编程"], ["使用", "Python", "编程"]),
        (["▁カ", "ー", "ド"], ["カー", "ド"]),
        (["▁gr", "<0xC3>", "<0xB6>", "<0xE6>", "<0x97>"], ["gr", "<0xC3><0xB6>", "<0xE6><0x97>"]),
        (["▁한국", "어", "는", "."], ["한국어는", "."]),
    ],
)
def test_examples(pieces: list[str], expected: list[str]) -> None:
    spelled = [(piece.startswith("▁"), piece.lstrip("▁")) for piece in pieces]
    begins = begins_words(unicode_borders(spelled, []), np.arange(len(pieces)))
    found: list[str] = []
    for (_, text), starts in zip(spelled, begins.tolist(), strict=True):
        found = [*found, text] if starts else [*found[:-1], found[-1] + text]
    assert found == expected


def test_the_rule_follows_the_normalisation(in_languages: Tokenizer) -> None:
    borders = Vocabulary.of(in_languages).word_starts
    is_official = in_languages.settings.normalization == "official"
    assert in_languages.word_rule == ("official" if is_official else "unicode")
    assert (borders.dtype == np.bool_) == is_official
    assert Vocabulary.of(in_languages, "official").word_starts.dtype == np.bool_
    specials = begins_words(in_languages.word_borders("unicode"), np.array([7, *range(5)]))
    assert specials[1:].all()
