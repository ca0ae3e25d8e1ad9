"""Which pieces make a word when words are masked whole: the official rule, or one by Unicode.

Borders are one number for each piece, so that a batch is cut with one look-up. By Unicode a piece goes on with the word
before it if it has no word mark, begins with a letter, and the piece before it ends with one. Scripts that put no
spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) leave no trace of them: there every piece is a word.
A combining mark, and a letter that only changes the one before it, never begins a word in any script.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

WordRule = Literal["official", "unicode"]
Borders = npt.NDArray[np.bool_] | npt.NDArray[np.uint8]
"""[V]: whether a piece begins a word (bool), or the three facts below (uint8)."""

WORD_MARK = "▁"

_STARTS = 1  # begins a word wherever it stands
_AFTER_LETTERS = 2  # goes on with a word, but only after a letter
_ENDS_WITH_LETTER = 4
_NO_SPACES = (
    "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH", "BOPOMOFO", "IDEOGRAPHIC",
    "KANGXI", "THAI", "LAO", "KHMER", "MYANMAR",
)  # fmt: skip
"""First words of the Unicode names of letters in scripts without spaces."""
_VISIBLE = re.compile(r"\S+")
_LETTERS_OR_NOT = re.compile(r"\w+|\W+")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")

# What `official_borders` says; "<" is not in the set.
_PUNCTUATION = re.escape('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_CONTINUATION = re.compile(f"[a-zA-Z]|[a-zA-Z{_PUNCTUATION}]{{2,}}")


def begins_words(borders: Borders, ids: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Which of some pieces in a row begin a word, bool [T]; the first one always may."""
    if borders.dtype == np.bool_:
        return np.asarray(borders[ids], np.bool_)
    facts = np.asarray(borders[ids], np.uint8)
    begins: npt.NDArray[np.bool_] = (facts & _STARTS) != 0
    after_letter = (facts[:-1] & _ENDS_WITH_LETTER) != 0
    begins[1:] |= ((facts[1:] & _AFTER_LETTERS) != 0) & ~after_letter
    return begins


def words_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield where words of raw text begin and end: at white space; in scripts without it, at punctuation too."""
    for run in _VISIBLE.finditer(text):
        parts: Iterable[re.Match[str]] = (run,)
        if not run[0].isascii() and any(map(_without_spaces, run[0])):
            parts = _LETTERS_OR_NOT.finditer(text, *run.span())
        yield from (part.span() for part in parts)


def official_borders(pieces: Sequence[str], specials: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Borders by the official rule, bool [V].

    A piece continues the word before it if it consists of English letters and punctuation alone, without a word mark
    or ``<``, and is not a single punctuation character. Digits and foreign letters therefore always start a word.
    """
    starts = np.array([_CONTINUATION.fullmatch(piece) is None for piece in pieces])
    starts[list(specials)] = True  # specials belong to no word
    return starts


def unicode_borders(pieces: Iterable[tuple[bool, str]], specials: Iterable[int]) -> npt.NDArray[np.uint8]:
    """Borders by Unicode, uint8 [V], of pieces given as (has a word mark, text without it)."""
    borders = np.array([_facts(marked, text) for marked, text in pieces], np.uint8)
    borders[list(specials)] = _STARTS
    return borders


def _facts(marked: bool, text: str) -> int:
    if byte := _BYTE.fullmatch(text):
        is_tail = 0x80 <= int(byte[1], 16) < 0xC0  # of a character that has begun before
        return 0 if is_tail and not marked else _STARTS
    if not text:
        return _STARTS | _ENDS_WITH_LETTER  # the mark alone: its word follows
    # Marks alone stand on a letter that is not seen here.
    last = next((c for c in reversed(text) if not _changes_another(c)), "a")
    end = _ENDS_WITH_LETTER if last.isalpha() and not _without_spaces(last) else 0
    if marked:
        return _STARTS | end
    if _changes_another(text[0]):
        return end
    return (_AFTER_LETTERS if text[0].isalpha() and not _without_spaces(text[0]) else _STARTS) | end


def _changes_another(character: str) -> bool:
    """Whether a character belongs to the one before it: an accent, a vowel sign, a long sound."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Lm")


def _without_spaces(character: str) -> bool:
    return unicodedata.name(character, "").partition(" ")[0] in _NO_SPACES
