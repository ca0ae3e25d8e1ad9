"""Pairs of segments (SOP, NSP, none) from sentence offsets alone; no token is touched.

Sentences of a document lie one after the other, so a segment is a range of tokens and an example is two ranges. The
walk over a document (fill a chunk up to a target length, cut it in two, go on after it) looks sequential, but what
happens to a chunk depends only on the sentence at which it begins. So the outcome is drawn for every sentence at once,
as if a chunk began there, and the walk is left with following pointers from one beginning to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from litebert.data.batches.example import Batch, ExampleConfig, Ints
from litebert.model.config import IGNORED_LABEL

SHORTEST_TARGET = 2


@dataclass(frozen=True)
class Pairs:
    """Examples as ranges of tokens: n examples, segment A in column 0 and B in column 1."""

    starts: Ints  # int64 [n, 2]: first token, after truncation
    lengths: Ints  # int64 [n, 2]: number of tokens, after truncation; B has none without a sentence task
    labels: Ints  # int64 [n]: 0 in order, 1 swapped or from another document, -100 without a task
    chunks: Ints  # int64 [n, 2]: first sentence taken from the walk and the one after the last

    def __len__(self) -> int:
        return len(self.labels)


class _Text(NamedTuple):
    sentences: Ints  # where they begin and end among the tokens
    documents: Ints  # where they begin and end among the sentences


def form_pairs(
    sentence_offsets: Ints, document_offsets: Ints, config: ExampleConfig, generator: np.random.Generator
) -> Pairs:
    """Cut documents into examples; every sentence is in exactly one chunk.

    A chunk holds whole sentences up to a target length and is cut into A and B between two of them. SOP swaps half of
    the pairs. NSP takes B from another document for half of them and gives the unused sentences back to the walk.
    ``paper`` draws the target for each chunk and splits a chunk of one sentence between two of its tokens; ``official``
    draws the target once for a document and gives a chunk of one sentence a B from another document, label 1, in SOP
    too. ``balanced`` is ``paper`` with half of the documents cut from their end. A pair whose B would be empty (a chunk
    of one token) is left out. Offsets, into tokens and into sentences, end with the total; nothing may be empty.
    """
    cut = _cut_from_either_end if config.rules == "balanced" else _cut
    return cut(_Text(sentence_offsets, document_offsets), config, generator)


def _cut_from_either_end(text: _Text, config: ExampleConfig, generator: np.random.Generator) -> Pairs:
    """Cut documents, half of them mirrored: lengths of segments do not tell their order.

    The sentence that reaches the target is longer than most, and it is the last of its chunk: the later segment is the
    longer one too often. In a mirrored document it is the first.
    """
    borders = text.sentences[text.documents]
    mirrored = generator.random(len(borders) - 1) < 0.5
    counts = np.diff(text.documents)
    sentence = np.arange(len(text.sentences) - 1)
    opposite = np.repeat(text.documents[:-1] + text.documents[1:] - 1, counts) - sentence
    lengths = np.diff(text.sentences)
    lengths = np.where(np.repeat(mirrored, counts), lengths[opposite], lengths)
    offsets = text.sentences[0] + np.concatenate(([0], np.cumsum(lengths)))
    pairs = _cut(_Text(offsets, text.documents), config, generator)

    document = np.searchsorted(borders[:-1], pairs.starts, side="right") - 1
    ends = pairs.starts + pairs.lengths
    mirror = (borders[:-1] + borders[1:])[document]
    starts = np.where(mirrored[document], mirror - ends, pairs.starts)
    # What came first in the mirror comes last; a B from elsewhere stays B.
    turned = mirrored[document[:, 0]] & (document[:, 0] == document[:, 1])
    turned = np.flatnonzero(turned & (pairs.lengths[:, 1] > 0))
    starts[turned] = starts[turned, ::-1]
    pairs.lengths[turned] = pairs.lengths[turned, ::-1]
    own = np.searchsorted(text.documents, pairs.chunks[:, :1], side="right") - 1
    mirror = text.documents[own] + text.documents[own + 1]
    chunks = np.where(mirrored[own], mirror - pairs.chunks[:, ::-1], pairs.chunks)
    return Pairs(starts, pairs.lengths, pairs.labels, chunks)


def _cut(text: _Text, config: ExampleConfig, generator: np.random.Generator) -> Pairs:
    """Cut documents into chunks, and chunks into segments that fit an example."""
    room = config.length - config.num_specials
    sentences_of_document = np.diff(text.documents)
    target = _targets(sentences_of_document, room, config, generator)
    end = np.searchsorted(text.sentences, text.sentences[:-1] + target)
    end = np.minimum(end, np.repeat(text.documents[1:], sentences_of_document))
    if config.task == "none":
        pairs = _one_segment(text.sentences, end)
    else:
        pairs = _two_segments(text, target, end, config, generator)
    # Drop tokens until a pair fits; how many of them at the front of a segment is binomial.
    lengths = np.stack(truncated_lengths(pairs.lengths[:, 0], pairs.lengths[:, 1], room), axis=1)
    starts = pairs.starts + generator.binomial(pairs.lengths - lengths, 0.5)
    return Pairs(starts, lengths, pairs.labels, pairs.chunks)


def truncated_lengths(first: Ints, second: Ints, room: int) -> tuple[Ints, Ints]:
    """Lengths left when tokens go one by one from the longer segment (on a tie B) down to ``room``.

    >>> truncated_lengths(np.array([9, 2]), np.array([9, 9]), 7)
    (array([4, 2]), array([3, 5]))
    """
    over = first + second > room
    kept = np.minimum(first, np.maximum(room - second, (room + 1) // 2))
    return np.where(over, kept, first), np.where(over, room - kept, second)


def _targets(sentences_of_document: Ints, room: int, config: ExampleConfig, generator: np.random.Generator) -> Ints:
    """Target length of a chunk for each sentence it may begin with, int64 [num_sentences]."""
    per_document = config.rules == "official"
    count = len(sentences_of_document) if per_document else int(sentences_of_document.sum())
    is_short = generator.random(count) < config.short_probability
    short = generator.integers(SHORTEST_TARGET, room, size=count, endpoint=True)
    target = np.where(is_short, short, room)
    return np.repeat(target, sentences_of_document) if per_document else target


def _one_segment(sentence_offsets: Ints, end: Ints) -> Pairs:
    chosen = _follow(end)
    begin, stop = sentence_offsets[chosen], sentence_offsets[end[chosen]]
    return Pairs(
        starts=np.stack([begin, stop], axis=1),
        lengths=np.stack([stop - begin, np.zeros_like(begin)], axis=1),
        labels=np.full(len(chosen), IGNORED_LABEL),
        chunks=np.stack([chosen, end[chosen]], axis=1),
    )


def _two_segments(text: _Text, target: Ints, end: Ints, config: ExampleConfig, generator: np.random.Generator) -> Pairs:
    """Cut chunks in two; ``target`` and ``end`` are those of a chunk begun at each sentence."""
    num_sentences = len(end)
    cut = np.arange(1, num_sentences + 1)
    cut += _below(end - cut, generator)
    negative = generator.random(num_sentences) < 0.5
    elsewhere = negative if config.task == "nsp" else np.zeros_like(negative)
    if config.task == "both":
        third = generator.random(num_sentences)
        negative, elsewhere = third < 2 / 3, third < 1 / 3
    if config.rules == "official":
        elsewhere = elsewhere | (end == np.arange(1, num_sentences + 1))
    after = np.where(elsewhere, cut, end)

    chosen = _follow(after)
    negative, elsewhere = negative[chosen], elsewhere[chosen]
    begin, middle = text.sentences[chosen], text.sentences[cut[chosen]]
    stop = text.sentences[end[chosen]]
    between_tokens = begin + 1 + _below(stop - begin - 1, generator)
    middle = np.where((middle == stop) & ~elsewhere, between_tokens, middle)
    starts, ends = np.stack([begin, middle], axis=1), np.stack([middle, stop], axis=1)
    away = np.flatnonzero(elsewhere)
    document = np.searchsorted(text.documents, chosen[away], side="right") - 1
    spare = (target[chosen] - (middle - begin))[away]
    starts[away, 1], ends[away, 1] = _elsewhere(text, document, spare, generator)
    swapped = np.flatnonzero(negative & ~elsewhere)
    starts[swapped], ends[swapped] = starts[swapped, ::-1], ends[swapped, ::-1]

    lengths = ends - starts
    keep = np.flatnonzero(lengths.min(axis=1) > 0)
    return Pairs(
        starts=starts[keep],
        lengths=lengths[keep],
        labels=(negative | elsewhere)[keep].astype(np.int64),
        chunks=np.stack([chosen, after[chosen]], axis=1)[keep],
    )


def _follow(after: Ints) -> Ints:
    """Chunk beginnings: from sentence 0 on, each leads to the one ``after`` it."""
    following, chosen, sentence = after.tolist(), [], 0
    while sentence < len(following):
        chosen.append(sentence)
        sentence = following[sentence]
    return np.array(chosen, dtype=np.int64)


def _below(limits: Ints, generator: np.random.Generator) -> Ints:
    """A uniform integer in [0, limit) for each limit, 0 where the limit is 0."""
    return (generator.random(len(limits)) * limits).astype(np.int64)


def _elsewhere(text: _Text, document: Ints, spare: Ints, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """Token ranges, from a random sentence until ``spare`` tokens, of any other document (the own if it is alone)."""
    num_documents = len(text.documents) - 1
    step = 1 + _below(np.full(len(document), num_documents - 1), generator)
    other = (document + step) % num_documents
    first = text.documents[other] + _below(text.documents[other + 1] - text.documents[other], generator)
    start = text.sentences[first]
    end = np.searchsorted(text.sentences, start + spare)
    end = np.minimum(np.maximum(end, first + 1), text.documents[other + 1])
    return start, text.sentences[end]


def length_rule(batches: Sequence[Batch]) -> float | None:
    """Accuracy of "the longer one first: swapped" (as long: a half); None without labels."""
    right = count = 0.0
    for batch in batches:
        labelled = batch.sentence_labels != IGNORED_LABEL
        second = batch.token_type_ids.sum(1) - 1  # without its [SEP]
        first = batch.lengths - second - 3
        swapped = np.sign(first - second)[labelled]
        labels = 2 * batch.sentence_labels[labelled] - 1
        right += float((swapped == labels).sum()) + 0.5 * float((swapped == 0).sum())
        count += float(labelled.sum())
    return right / count if count else None


def overlap_rule(batches: Sequence[Batch]) -> float | None:
    """Accuracy of "few pieces in common, so they are from two documents"; None without labels.

    What counts is the share of the pieces of the poorer segment that the other one has too. The threshold is the best
    one for these very pairs.
    """
    shares: list[float] = []
    labels: list[int] = []
    for batch in batches:
        ids, borders = batch.originals(), batch.lengths - batch.token_type_ids.sum(1)
        for row in np.flatnonzero(batch.sentence_labels != IGNORED_LABEL):
            first = set(ids[row, 1 : borders[row] - 1].tolist())
            second = set(ids[row, borders[row] : batch.lengths[row] - 1].tolist())
            shares.append(len(first & second) / max(1, min(len(first), len(second))))
            labels.append(int(batch.sentence_labels[row]))
    if not labels:
        return None
    order = np.argsort(shares, kind="stable")
    ascending = np.array(shares)[order]
    # With the first k below the threshold: their ones and the others' zeros are right.
    ones = np.concatenate(([0], np.cumsum(np.array(labels)[order])))
    zeros_above = (len(labels) - ones[-1]) - (np.arange(len(ones)) - ones)
    possible = np.concatenate(([True], ascending[1:] != ascending[:-1], [True]))
    return float((ones + zeros_above)[possible].max() / len(labels))
