"""Split running text into sentences."""

from __future__ import annotations

import re

from litebert.text.normalize import replace_surrogates

SPLIT_CHARACTERS = 4096
"""A longer text is split in slices of this length: sentencex takes quadratic time over many
quotation marks, and one that is never closed would make a single sentence of all that follows."""

LANGUAGES_WITH_RULES = (
    "am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr", "gu", "hi", "hy", "it",
    "ja", "kk", "kn", "ml", "mr", "my", "nl", "pa", "pl", "pt", "ru", "sk", "ta", "te", "uk",
)  # fmt: skip
"""Those for which sentencex 1.0 has rules of their own; it has no way to ask."""


def splitting_note(language: str) -> str | None:
    """What to tell who splits text of a language without rules; None if it has some."""
    if _rules_of(language) in LANGUAGES_WITH_RULES:
        return None
    rules = "the marks of all scripts end a sentence, abbreviations are those of English"
    return f"language {language}: the sentence splitter has no rules for it; {rules}"


def _rules_of(language: str) -> str:
    """The code that sentencex knows: ``pt`` for ``pt-BR``."""
    short = re.split("[-_]", language.lower())[0]
    return short if short in LANGUAGES_WITH_RULES else language


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Return the sentences of a text, stripped, none of them empty, in a language given by its ISO 639 code.

    A line break inside a paragraph ends no sentence, a blank line does.

    >>> split_sentences("Dr. Smith came at 5 p.m. sharp. He left soon.")
    ['Dr. Smith came at 5 p.m. sharp.', 'He left soon.']
    """
    language = _rules_of(language)
    try:
        parts = _segment(language, text)
    except UnicodeEncodeError:
        parts = _segment(language, replace_surrogates(text))
    return [sentence for part in parts if (sentence := part.strip())]


def _segment(language: str, text: str) -> list[str]:
    """Segment a text in linear time; the last sentence found starts the next search."""
    from sentencex import segment

    parts, start = list[str](), 0
    while start < len(text):
        end = start + SPLIT_CHARACTERS
        found = segment(language, text[start:end])
        if end < len(text):
            if len(found) > 1:
                end -= len(found.pop())
            else:  # one sentence that fills all of them is not prose: cut it where a word ends
                last_space = text.rfind(" ", start, end)
                end = last_space if last_space > start else end
                found = [text[start:end]]
        parts.extend(found)
        start = end
    return parts
