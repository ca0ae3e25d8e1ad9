"""Layouts of plain text: how lines make documents, and how a layout is recognised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from litebert.text.sentences import split_sentences

TextLayout = Literal["sentences", "paragraphs", "files"]

WRAP_COLUMNS = (50, 100)  # A text whose longest line lies between these widths was wrapped by an editor.

_ENDINGS = tuple(".!?…。！？।؟\"'”’»)]:;")
_SPLIT_LINES = 300
_SENTENCES_PER_LINE = 1.25


def lines_of(text: str) -> list[str]:
    """Return stripped lines; only a newline ends one. Blank lines are empty strings."""
    return [line.strip() for line in text.split("\n")]


def documents_between_blank_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Group stripped lines into documents; any number of blank lines separates two."""
    document: list[str] = []
    for line in lines:
        if line:
            document.append(line)
        elif document:
            yield document
            document = []
    if document:
        yield document


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of a document that stands on its own (a file, a JSON text).

    Each line is a paragraph, unless the text is wrapped (three lines or more, the longest of 50 to 100 characters):
    then a paragraph goes on until a blank line.
    """
    lines = lines_of(text)
    if WRAP_COLUMNS[0] <= max(map(len, lines)) <= WRAP_COLUMNS[1] and sum(map(bool, lines)) >= 3:
        return [" ".join(group) for group in documents_between_blank_lines(lines)]
    return [line for line in lines if line]


def detect_layout(samples: Sequence[str], language: str) -> tuple[TextLayout, str]:
    """Recognise the layout from the beginnings of a few files, and say why.

    Where lines are wrapped, or each is followed by a blank one in several files, blank lines separate paragraphs, so a
    file is a document. Else lines of more than 1.25 sentences on average are paragraphs, of one document if there is no
    blank line at all.
    """
    groups = [g for sample in samples for g in documents_between_blank_lines(lines_of(sample))]
    lines = [line for group in groups for line in group]
    if not lines:
        return "paragraphs", "no text in the sample"
    lengths = np.array([len(line) for line in lines])
    closed = float(np.mean([line.endswith(_ENDINGS) for line in lines]))
    lines_per_group = len(lines) / len(groups)
    if np.quantile(lengths, 0.95) <= WRAP_COLUMNS[1] < 2 * lengths.mean() and closed < 0.5:
        return "files", "wrapped lines"
    if len(samples) > 1 and len(groups) > len(samples) and lines_per_group < 1.5:
        return "files", "a blank line after every line, in several files"
    some_lines = lines[:: max(1, len(lines) // _SPLIT_LINES)]
    per_line = float(np.mean([len(split_sentences(line, language)) for line in some_lines]))
    is_one_group = len(groups) == len(samples)
    gaps = "no blank lines" if is_one_group else f"a blank line after every {lines_per_group:.0f}"
    layout: TextLayout = "files" if is_one_group else "paragraphs"
    reason = f"{per_line:.1f} sentences a line, {gaps}"
    return layout if per_line > _SENTENCES_PER_LINE else "sentences", reason
