"""Normalise text by one of three rules, with a map back to the raw characters.

``official`` has four steps, in this order: strip and collapse white space, Unicode NFKD, drop
combining characters, lower-case. ``keep-accents`` composes (NFKC) instead of dropping: every letter
stays what it is. ``none`` touches white space alone. Digits, quotes and punctuation stay as they
are. Half of a surrogate pair, which JSON can carry but UTF-8 cannot, becomes U+FFFD.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from sys import maxunicode
from typing import Literal

Normalization = Literal["official", "keep-accents", "none"]

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_WORD = re.compile(r"\S+")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class NormalizedText:
    """Normalised text and, for each of its characters, the raw character it came from."""

    text: str
    raw_start: Sequence[int]
    raw_end: Sequence[int]  # after the raw character and the accents on it

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the raw (start, end) of a normalised span; an empty span stays empty."""
        if start < end:
            return self.raw_start[start], self.raw_end[end - 1]
        raw = self.raw_start[start] if start < len(self.text) else self.raw_end[-1]
        return raw, raw


def normalize(text: str, lower: bool = True, rule: Normalization = "official") -> str:
    """Return the normalised text; ``lower=False`` keeps the case (cased models).

    >>> normalize("  The Café\\t in  ½ "), normalize("Größe", rule="keep-accents")
    ('the cafe in 1⁄2', 'größe')
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = _NOT_ASCII.sub(_decompose_match, text) if rule == "official" else replace_surrogates(text)
        text = unicodedata.normalize("NFKC", text) if rule == "keep-accents" else text
    return text.lower() if lower else text


def normalize_with_map(text: str, lower: bool = True, rule: Normalization = "official") -> NormalizedText:
    """Return what `normalize` returns, with the raw position of every character."""
    if text.isascii() and text == " ".join(text.split()):  # most text is: nothing moves
        return NormalizedText(text.lower() if lower else text, range(len(text)), range(1, len(text) + 1))
    rows: list[_Row] = []
    for number, word in enumerate(_WORD.finditer(replace_surrogates(text))):
        if number:
            rows.append((" ", word.start() - 1, word.start()))
        _RULES[rule](word[0], word.start(), rows)
    joined = "".join(letter for letter, _, _ in rows)
    lowered = joined.lower() if lower else joined  # a final sigma depends on its neighbours
    if len(lowered) != len(joined):
        rows = [row for row in rows for _ in row[0].lower()]
    return NormalizedText(lowered, [start for _, start, _ in rows], [end for _, _, end in rows])


def replace_surrogates(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair; the length stays."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


_Row = tuple[str, int, int]  # a normalised character, and the raw characters it came from


def _map_official(word: str, begin: int, rows: list[_Row]) -> None:
    """Add the rows of a word without accents; an accent belongs to the letter before it.

    Decomposing character by character is exact: NFKD of a string is the decompositions in a row,
    with only combining characters reordered, and those are dropped.
    """
    for index, raw in enumerate(word, start=begin):
        if raw.isascii():
            rows.append((raw, index, index + 1))
            continue
        parts = unicodedata.normalize("NFKD", raw)
        kept = [(part, index, index + 1) for part in parts if not unicodedata.combining(part)]
        rows.extend(kept)
        if not kept and rows and rows[-1][0] != " ":
            letter, start, _ = rows[-1]
            rows[-1] = letter, start, index + 1


def _map_keeping_accents(word: str, begin: int, rows: list[_Row]) -> None:
    """Add the rows of a composed word, run by run.

    A run begins where nothing composes with what comes before it, so that NFKC of a word is
    the NFKC of its runs in a row. One that changes belongs as a whole to its raw characters.
    """
    borders = [place for place, raw in enumerate(word) if place == 0 or _stands_alone(raw)]
    for start, end in pairwise([*borders, len(word)]):
        run = word[start:end]
        composed = unicodedata.normalize("NFKC", run)
        if composed == run:
            _map_plain(run, begin + start, rows)
        else:
            rows.extend((part, begin + start, begin + end) for part in composed)


def _map_plain(word: str, begin: int, rows: list[_Row]) -> None:
    rows.extend((raw, index, index + 1) for index, raw in enumerate(word, start=begin))


_RULES = {"official": _map_official, "keep-accents": _map_keeping_accents, "none": _map_plain}


@lru_cache(maxsize=1 << 14)
def _stands_alone(character: str) -> bool:
    """Whether NFKC joins a character to nothing that comes before it."""
    first = unicodedata.normalize("NFKD", character)[0]
    return not unicodedata.combining(first) and first not in _joined_characters()


@cache
def _joined_characters() -> frozenset[str]:
    """Second characters of canonical decompositions, which compose with the one before them though of no class."""
    found = set(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))))  # the Korean ones follow a formula
    for character in map(chr, range(maxunicode + 1)):
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)


@lru_cache(maxsize=1 << 16)
def _decompose(run: str) -> str:
    """Return NFKD without combining characters of a run without ASCII, which stands alone."""
    decomposed = unicodedata.normalize("NFKD", replace_surrogates(run))
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _decompose_match(match: re.Match[str]) -> str:
    # A corpus has few different short runs (dashes, quotes, letters with accents, words): those are remembered.
    return (_decompose if len(match[0]) <= 16 else _decompose.__wrapped__)(match[0])
