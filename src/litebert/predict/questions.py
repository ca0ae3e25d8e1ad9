"""What can be asked of a model: each question knows its inputs and how to read the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from litebert.common.errors import InputError
from litebert.interop.pooling import VectorRule
from litebert.predict.layers import token_movements
from litebert.tasks.base import Feature, FloatArray, Outputs
from litebert.tasks.forms.arrays import softmax
from litebert.tasks.forms.rows import pair_row, single_row
from litebert.text.tokenizer import Tokenizer

Result_co = TypeVar("Result_co", covariant=True)

# Only from the start of white space: tried at each blank of a long run it would take forever.
_MASK = re.compile(r"(?<!\s)(\s*)\[MASK\]", re.IGNORECASE)


@dataclass(frozen=True)
class Candidate:
    """One word that may stand at a mask."""

    token: str  # the piece as text, without the word-start marker
    token_id: int
    score: float  # its probability at this position
    is_continuation: bool = False  # of the word before it, without a space between them


@dataclass(frozen=True)
class FilledText:
    """The candidates for every ``[MASK]`` of one text."""

    text: str  # as it was given, with the best candidate at each mask
    masks: list[list[Candidate]]  # for each mask in the order of the text, the best first


@dataclass(frozen=True)
class SentenceOrder:
    """How sure the model is that the first sentence comes first: two probabilities."""

    in_order: float
    swapped: float


@dataclass(frozen=True)
class LayerPath:
    """How far each block moves the tokens of one text: Figure 1 of the paper for one input."""

    # Means over tokens of the L2 distance and the angle between input and output of each block.
    distance: list[float]
    angle_degrees: list[float]


@dataclass(frozen=True)
class Question(Generic[Result_co]):
    """One thing to ask, ready for any batch: predictor and server differ only in who forms it."""

    features: Sequence[Feature]  # the model inputs, of one row each
    outputs: tuple[str, ...]  # the model outputs that `decode` reads
    decode: Callable[[Sequence[Outputs]], Result_co]  # from those of each feature to the answer

    @property
    def num_tokens(self) -> int:
        """Tokens of all inputs, without padding."""
        return sum(map(len, self.features))


class Reader(Protocol):
    """What makes inputs of texts; a predictor is one."""

    tokenizer: Tokenizer
    max_length: int


def fill_mask(text: str, reader: Reader, top_k: int) -> Question[FilledText]:
    """Ask for the words that may stand at each ``[MASK]`` of a text."""
    check_top_k(top_k)
    tokenizer = reader.tokenizer
    body = tokenizer.encode_masked(text)
    masked = tuple(i + 1 for i, token in enumerate(body) if token == tokenizer.mask_id)
    if not masked:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise InputError(f"the text has no [MASK]: {shown!r}; write one where a word is missing")
    _check_length(len(body) + 2, reader)
    feature = Feature(0, (single_row(body, tokenizer, reader.max_length),), masked=masked)

    def filled(said: Sequence[Outputs]) -> FilledText:
        masks = [_candidates(logits, tokenizer, top_k) for logits in said[0]["masked_logits"]]
        best = iter([candidates[0] for candidates in masks])
        return FilledText(_MASK.sub(lambda found: _put(found, next(best)), text), masks)

    return Question([feature], ("masked_logits",), filled)


def _put(found: re.Match[str], candidate: Candidate) -> str:
    """Return what takes the place of a mask and the space before it."""
    if candidate.is_continuation:
        return candidate.token
    return (found[1] or ("" if found.start() == 0 else " ")) + candidate.token


def check_top_k(top_k: int) -> None:
    """Raise InputError if no candidates are asked for."""
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; ask for at least 1 candidate")


def order(first: str, second: str, reader: Reader) -> Question[SentenceOrder]:
    """Ask whether two sentences stand in their original order."""
    ids = reader.tokenizer.encode_batch([first, second])
    if not all(ids):
        raise InputError("sentence order needs two sentences; one of them is empty")
    _check_length(len(ids[0]) + len(ids[1]) + 3, reader)
    feature = Feature(0, (pair_row(ids[0], ids[1], reader.tokenizer, reader.max_length),))
    logits = "sop_logits"  # label 0 of the head means in order, label 1 swapped
    return Question([feature], (logits,), lambda said: SentenceOrder(*softmax(said[0][logits]).tolist()))


def embed(text: str, reader: Reader, rule: VectorRule, *, may_be_empty: bool = False) -> Question[FloatArray]:
    """Ask for one vector; float32 [H]. An empty text has one too, of ``[CLS]`` and ``[SEP]``."""
    states = "last_hidden_state"
    feature = plain(text, reader, may_be_empty)
    return Question([feature], (states,), lambda said: rule.vector(said[0][states]))


def layer_path(text: str, reader: Reader) -> Question[LayerPath]:
    """Ask how far each block moves the tokens of a text."""

    def path(said: Sequence[Outputs]) -> LayerPath:
        moved = token_movements(said[0]["hidden_states"])
        return LayerPath(*(values_SL.mean(axis=0).tolist() for values_SL in moved))

    return Question([plain(text, reader)], ("hidden_states",), path)


def plain(text: str, reader: Reader, may_be_empty: bool = False) -> Feature:
    """Return one text as a feature, cut at its end if it is too long."""
    ids = reader.tokenizer.encode(text)
    if not ids and not may_be_empty:
        raise InputError("the text is empty; write some words")
    return Feature(0, (single_row(ids, reader.tokenizer, reader.max_length),))


def _candidates(logits_V: FloatArray, tokenizer: Tokenizer, top_k: int) -> list[Candidate]:
    top_k = min(top_k, len(logits_V))
    best = np.argpartition(-logits_V, top_k - 1)[:top_k]
    best = best[np.argsort(-logits_V[best], kind="stable")]
    scores = softmax(logits_V)[best]
    candidates = []
    for token_id, score in zip(best.tolist(), scores.tolist(), strict=True):
        begins_word, word = tokenizer.spell(token_id)
        candidates.append(Candidate(word or tokenizer.id_to_piece(token_id), token_id, score, not begins_word))
    return candidates


def _check_length(num_tokens: int, reader: Reader) -> None:
    if num_tokens > reader.max_length:
        raise InputError(f"the text has {num_tokens} tokens, the model reads {reader.max_length}; shorten it")
