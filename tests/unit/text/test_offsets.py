"""Offsets: every piece points at the raw characters it was made of."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import DigitComma, Tokenizer, TokenizerSettings

ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
TRICKY_TEXT = st.text("ab E1239,.()-éﬁ½２한ΣÅ\u0301\u0327\u00a0\t\n\u200b¨\x01▁", max_size=40)
WORDS = st.text("abcdeE129,.()-éﬁ½２한Å", min_size=1, max_size=8)
SPACE = st.text(" \t\n\u00a0\u3000", min_size=1, max_size=3)


def spoken(tokenizer: SentencePieceTokenizer, text: str) -> str:
    """What SentencePiece sees of a text, without white space."""
    return str(tokenizer.processor.normalize(tokenizer.normalize(text))).replace("▁", "")


@given(ANY_TEXT | TRICKY_TEXT)
@example("  ﬁne  Café, in 1998,  ½ é")
@example("\u0301a")
def test_offsets_are_ordered_and_inside(tiny_tokenizer: SentencePieceTokenizer, text: str) -> None:
    encoding = tiny_tokenizer.encode_with_offsets(text)
    assert len(encoding.ids) == len(encoding.starts) == len(encoding.ends)
    assert encoding.starts == sorted(encoding.starts)
    assert encoding.ends == sorted(encoding.ends)
    for start, end in zip(encoding.starts, encoding.ends, strict=True):
        assert 0 <= start <= end <= len(text)
        assert start == end or not text[start].isspace()


LETTERS = st.text("aeE ,é\u0301\u0323İıΣσしが\u3099한ᄒ\u1161\u11a8हिन\u094dไม่تُ中\u00a0\t\u200b", max_size=30)


@given(ANY_TEXT | LETTERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_offsets_under_every_normalisation(in_languages: SentencePieceTokenizer, text: str) -> None:
    encoding = in_languages.encode_with_offsets(text)
    assert encoding.ids == in_languages.encode(text)
    assert encoding.starts == sorted(encoding.starts)
    assert encoding.ends == sorted(encoding.ends)
    covered = set[int]()
    for start, end in zip(encoding.starts, encoding.ends, strict=True):
        assert 0 <= start <= end <= len(text)
        covered.update(range(start, end))
    left_out = "".join(c for index, c in enumerate(text) if index not in covered)
    assert spoken(in_languages, left_out) == ""


@given(ANY_TEXT | TRICKY_TEXT)
def test_slices_cover_all_that_is_spoken(tiny_tokenizer: SentencePieceTokenizer, text: str) -> None:
    encoding = tiny_tokenizer.encode_with_offsets(text)
    covered = set[int]()
    for start, end in zip(encoding.starts, encoding.ends, strict=True):
        covered.update(range(start, end))
    left_out = "".join(c for index, c in enumerate(text) if index not in covered)
    assert spoken(tiny_tokenizer, left_out) == ""


@given(st.text("abcde E129,.()-éÅ\u00a0\t", max_size=40))
def test_each_slice_is_its_piece(tiny_tokenizer: SentencePieceTokenizer, text: str) -> None:
    """Without characters that become several, piece and slice say the same."""
    encoding = tiny_tokenizer.encode_with_offsets(text)
    rows = zip(tiny_tokenizer.pieces(text), encoding.starts, encoding.ends, strict=True)
    for piece, start, end in rows:
        assert tiny_tokenizer.normalize(text[start:end]) == piece.removeprefix("▁")


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(SPACE, min_size=7, max_size=7), st.data())
def test_a_stretch_of_words_is_found_again(
    tiny_tokenizer: SentencePieceTokenizer, words: list[str], spaces: list[str], data: st.DataObject
) -> None:
    """A gold answer that begins and ends with a word comes back character for character."""
    text, places = spaces[0], list[tuple[int, int]]()
    for word, space in zip(words, spaces[1:], strict=False):
        places.append((len(text), len(text) + len(word)))
        text += word + space
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    gold_start, gold_end = places[first][0], places[last][1]

    encoding = tiny_tokenizer.encode_with_offsets(text)
    rows = zip(encoding.starts, encoding.ends, strict=True)
    inside = [(start, end) for start, end in rows if gold_start <= start < end <= gold_end]
    assert inside[0][0] == gold_start
    assert inside[-1][1] == gold_end


@pytest.mark.parametrize("rule", ["official", "intended"])
@given(number=st.integers(0, 2100), letter=st.sampled_from(["", "x", "b(", "é"]))
@settings(suppress_health_check=[HealthCheck.differing_executors])
def test_the_digit_comma_rule_splits_the_slice(
    with_digit_commas: Tokenizer, rule: DigitComma, number: int, letter: str
) -> None:
    tokenizer = SentencePieceTokenizer(with_digit_commas.model, TokenizerSettings(digit_comma=rule))
    text = f" in  {letter}{number},\t and"
    encoding = tokenizer.encode_with_offsets(text)
    slices = [text[a:b] for a, b in zip(encoding.starts, encoding.ends, strict=True)]
    assert "," in slices
    assert "".join(slices) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "slices"),
    [("  ﬁ x", ["ﬁ", "x"]), ("e\u0301\u0301  y", ["e\u0301\u0301", "y"]), ("½", ["½"]), ("한국", ["한국"])],
)
def test_examples(tiny_tokenizer: SentencePieceTokenizer, text: str, slices: list[str]) -> None:
    encoding = tiny_tokenizer.encode_with_offsets(text)
    rows = zip(encoding.starts, encoding.ends, strict=True)
    assert list(dict.fromkeys(text[start:end] for start, end in rows if start < end)) == slices
