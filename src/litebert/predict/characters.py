"""Loss per character: how well hidden words are known, comparable across vocabularies.

Words are chosen in the raw text, by a fixed seed and without a tokenizer, so every model has to
find the same words in the same stretches of text. All pieces of a chosen word are masked at once;
its loss is the sum of theirs, and the sum over all words is divided by their characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from litebert.common.rng import rng
from litebert.predict.predictor import Predictor
from litebert.predict.questions import Question
from litebert.tasks.base import Feature, Outputs
from litebert.tasks.forms.rows import single_row
from litebert.text.words import words_in

WINDOW_CHARACTERS = 256  # a stretch that is read at once ends with the word that reaches so far
WINDOWS = 1024  # stretches that are measured at most, the first ones
HIDDEN_SHARE = 0.15  # of the words of a stretch, at least one
UNKNOWN_NATS = float(np.log(150_000))  # of each character of an unknown piece, besides the piece: any of Unicode
_SEED = 20190926


@dataclass(frozen=True)
class CharacterLoss:
    """What a model makes of hidden words, and what its vocabulary makes of the text."""

    loss_per_character: float  # nats
    pieces_per_word: float  # of all words; a stretch without spaces counts as one
    unknown_share: float  # of all pieces
    hidden_words: int
    hidden_characters: int

    def describe(self) -> str:
        """All figures as one line."""
        return (
            f"{self.loss_per_character:.4f} nats per character ({self.hidden_words:,} hidden words "
            f"of {self.hidden_characters:,} characters), {self.pieces_per_word:.3f} pieces per "
            f"word, {self.unknown_share:.2%} unknown"
        )


def character_loss(predictor: Predictor, texts: Iterable[str]) -> CharacterLoss | None:
    """Measure a model with a masked-word head on documents; None if they hold no word."""
    windows = islice(_windows(texts), WINDOWS)
    asked = [_hidden_words(text, spans, index, predictor) for index, (text, spans) in enumerate(windows)]
    if not asked:
        return None
    loss, pieces, unknown, words, hidden, characters = np.sum(predictor.ask(asked), axis=0).tolist()
    return CharacterLoss(loss / characters, pieces / words, unknown / max(1, pieces), int(hidden), int(characters))


def _windows(texts: Iterable[str]) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield stretches of text with the places of their words; no stretch leaves its document."""
    for text in texts:
        words = list(words_in(text))
        spans: list[tuple[int, int]] = []
        for number, (start, end) in enumerate(words, start=1):
            first = spans[0][0] if spans else start
            spans.append((start, end))
            if end - first >= WINDOW_CHARACTERS or number == len(words):
                # A line break is white space to one tokenizer and unknown to another.
                clean = re.sub(r"\s", " ", text[first:end])
                yield clean, [(begin - first, last - first) for begin, last in spans]
                spans = []


def _hidden_words(
    text: str, spans: Sequence[tuple[int, int]], index: int, predictor: Predictor
) -> Question[tuple[float, ...]]:
    """Ask for the hidden words of a stretch; the answer is what :func:`character_loss` sums up."""
    tokenizer = predictor.tokenizer
    number = max(1, round(HIDDEN_SHARE * len(spans)))
    chosen = rng(_SEED, "hidden words", index).choice(len(spans), number, replace=False)
    found = tokenizer.encode_with_offsets(text)
    # A piece belongs to the word that holds its first character, a bare mark to the next one.
    owners = np.searchsorted([start for start, _ in spans], found.starts, side="right") - 1
    ids, is_hidden = np.array(found.ids, np.int64), np.isin(owners, chosen)
    unknown = np.flatnonzero(ids == tokenizer.unk_id)
    extra = sum(found.ends[at] - found.starts[at] for at in unknown if is_hidden[at])
    masked = np.where(is_hidden, tokenizer.mask_id, ids)
    room = predictor.max_length - 2  # a vocabulary of letters may need several rows
    features, labels = [], []
    for first in range(0, len(ids), room):
        cut = slice(first, first + room)
        places = np.flatnonzero(is_hidden[cut])
        if len(places):
            row = single_row(masked[cut].tolist(), tokenizer, predictor.max_length)
            features.append(Feature(0, (row,), masked=tuple((places + 1).tolist())))
            labels.append(ids[cut][places])
    characters = sum(spans[word][1] - spans[word][0] for word in chosen)
    counts = (len(ids), len(unknown), len(spans), number, characters)

    def decode(said: Sequence[Outputs]) -> tuple[float, ...]:
        loss = UNKNOWN_NATS * extra
        for outputs, wanted in zip(said, labels, strict=True):
            logits = outputs["masked_logits"].astype(np.float64)
            top = logits.max(-1, keepdims=True)
            total = np.log(np.exp(logits - top).sum(-1)) + top[:, 0]
            loss += float((total - logits[np.arange(len(wanted)), wanted]).sum())
        return (loss, *counts)

    return Question(features, ("masked_logits",), decode)
