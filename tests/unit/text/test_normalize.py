"""Normalisation: the official four steps, and a map that leads back to the raw text."""

from __future__ import annotations

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from litebert.text.normalize import Normalization, normalize, normalize_with_map, replace_surrogates

ANY_TEXT = st.text(st.characters(codec="utf-8"))
# Accents, ligatures, fractions, wide digits, Korean, Greek capitals, odd spaces: all change length.
TRICKY_TEXT = st.text("aE éÉﬁ½２Ⅷ한ΣİǅÅ\u0301\u0327\u00a0\u3000\t\n\u200b¨ﷺ", max_size=30)


def official(text: str, lower: bool) -> str:
    text = " ".join(text.strip().split())
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if lower else text


@given(ANY_TEXT | TRICKY_TEXT, st.booleans())
@example("e\u0301 ΑΣ ΑΣΑ", True)
def test_equals_the_official_steps(text: str, lower: bool) -> None:
    assert normalize(text, lower) == official(text, lower)


def test_examples() -> None:
    assert normalize("  The Café\t in  ½ ") == "the cafe in 1⁄2"
    assert normalize("Ｔｈｅ Ångström", lower=False) == "The Angstrom"
    assert normalize("हिन्दी") == "हिनदी"  # only combining class 0 stays
    assert normalize("`` it's ''") == "`` it's ''"


@given(ANY_TEXT | TRICKY_TEXT, st.booleans())
@example(" \u0301a\u0301 \u0301", True)
@example("İİ a", True)
def test_map_leads_back_to_the_raw_characters(text: str, lower: bool) -> None:
    mapped = normalize_with_map(text, lower)
    assert mapped.text == normalize(text, lower)
    assert len(mapped.text) == len(mapped.raw_start) == len(mapped.raw_end)
    assert list(mapped.raw_start) == sorted(mapped.raw_start)
    assert list(mapped.raw_end) == sorted(mapped.raw_end)
    for index, character in enumerate(mapped.text):
        start, end = mapped.raw_start[index], mapped.raw_end[index]
        assert 0 <= start < end <= len(text)
        if character == " ":
            continue  # collapsed white space, or a space that NFKD made
        # A final sigma is lower-cased by its place in the word, so compare without case.
        assert character.upper() in unicodedata.normalize("NFKD", text[start:end]).upper()


def letters_of(text: str) -> set[str]:
    """Letters and marks, case and composition aside."""
    return set(unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).upper()))


# Marks that compose, in order and out of it, Korean letters, vowel signs without a class, tones.
COMPOSING = st.text("aeE \u0301\u0307\u0327\u0323한ᄒ\u1161\u11a8が\u3099\uff9eｶকো\u09beङ\u093cﬁİΣﷺ", max_size=20)


@given(ANY_TEXT | COMPOSING, st.booleans(), st.sampled_from(["keep-accents", "none"]))
@example("\u0301 a", True, "keep-accents")
def test_letters_are_kept(text: str, lower: bool, rule: Normalization) -> None:
    expected = " ".join(text.split())
    if rule == "keep-accents":
        expected = unicodedata.normalize("NFKC", expected)
    expected = expected.lower() if lower else expected
    mapped = normalize_with_map(text, lower, rule)
    assert normalize(text, lower, rule) == mapped.text == expected
    assert list(mapped.raw_start) == sorted(mapped.raw_start)
    assert list(mapped.raw_end) == sorted(mapped.raw_end)
    for index, character in enumerate(mapped.text):
        raw = text[mapped.raw_start[index] : mapped.raw_end[index]]
        assert raw
        if character != " ":
            assert letters_of(character) <= letters_of(raw)


def test_examples_of_letters_that_are_kept() -> None:
    for word in ("så", "größe", "が", "й", "việt", "हिन्दी", "ไม่"):
        assert normalize(word, rule="keep-accents") == word
        assert normalize(unicodedata.normalize("NFD", word), rule="keep-accents") == word
        assert normalize(word) != word
    assert normalize(" Ｇröße\t½", rule="none") == "ｇröße ½"
    mapped = normalize_with_map("e\u0301 한", rule="keep-accents")
    assert (mapped.text, mapped.raw_span(0, 1), mapped.raw_span(2, 3)) == ("é 한", (0, 2), (3, 4))


@given(ANY_TEXT | TRICKY_TEXT)
def test_an_accent_belongs_to_the_letter_before_it(text: str) -> None:
    mapped = normalize_with_map(f"{text} e\u0301\u0327")
    assert mapped.raw_span(len(mapped.text) - 1, len(mapped.text)) == (len(text) + 1, len(text) + 4)


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    assert replace_surrogates("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert normalize("a \ud800") == "a \ufffd"
    assert normalize_with_map("a \ud800").text == "a \ufffd"
