"""Sentence splitting: nothing is lost, nothing is empty, long text takes linear time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.text.sentences import SPLIT_CHARACTERS, split_sentences, splitting_note

pytest.importorskip("sentencex")

PROSE = st.text("abc DE.?!\"'()\n\u3000。é", max_size=200)


@given(PROSE | st.text(st.characters(codec="utf-8")))
def test_characters_stay_in_order_and_sentences_are_stripped(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)
    assert sentences == split_sentences(text)


@given(st.text('ab. "(', min_size=1, max_size=40), st.integers(1, 40))
def test_long_text_loses_nothing(pattern: str, factor: int) -> None:
    text = pattern * (SPLIT_CHARACTERS * factor // (20 * len(pattern)) + 1)
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


def test_abbreviations_and_quotations() -> None:
    assert split_sentences('Dr. Smith came at 5 p.m. today. He said "Stop. Wait." and left.') == [
        "Dr. Smith came at 5 p.m. today.",
        'He said "Stop. Wait." and left.',
    ]
    assert split_sentences("こんにちは。元気ですか？", "ja") == ["こんにちは。", "元気ですか？"]


def test_a_blank_line_ends_a_sentence() -> None:
    assert split_sentences("A heading\n\nA line\nthat goes on. More.") == [
        "A heading",
        "A line\nthat goes on.",
        "More.",
    ]


def test_windows_do_not_cut_sentences() -> None:
    sentences = [f"This is sentence number {n} of a long text." for n in range(2000)]
    assert split_sentences(" ".join(sentences)) == sentences


def test_a_quotation_that_never_ends_does_not_swallow_the_rest() -> None:
    sentences = ['He said "this and went away.'] + ["Nobody came back that day."] * 2000
    found = split_sentences(" ".join(sentences))
    assert max(map(len, found)) <= SPLIT_CHARACTERS
    assert len(found) > 1500


def test_half_a_surrogate_pair_is_no_crash() -> None:
    assert split_sentences("One \ud800. Two.") == ["One \ufffd.", "Two."]


def test_a_language_without_rules_says_so() -> None:
    text = "Am 3. Mai kam er. Er ging."
    assert split_sentences(text, "de-AT") == split_sentences(text, "de") != split_sentences(text)
    assert splitting_note("de_AT") is splitting_note("en") is None
    note = splitting_note("sv")
    assert note is not None
    assert "language sv: the sentence splitter has no rules for it" in note
    assert split_sentences("你好。很好！", "zh") == ["你好。", "很好！"]
