"""Masks: whole words and n-grams up to a budget, 80/10/10, for a whole batch at once.

Tokens of a batch lie flat: A and B of the first example, of the second and so on, no specials. In this order every word
and every run of words is a plain range, also one that the official rules carry across the border between A and B. The
official selection is sequential (shuffled beginnings, each accepted or not in view of those before); here every round
takes the next beginning of all examples together, so the law is the same and the loop is as long as one example needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from litebert.data.batches.example import Ints, MaskConfig, Vocabulary
from litebert.text.words import Borders, begins_words

MASK_SHARE = 0.8
KEEP_SHARE = 0.1


@dataclass(frozen=True)
class Words:
    """The words of a flat batch."""

    first: Ints  # int64 [W + 1]: flat index of each word's first token; the last entry ends the last word
    limit: Ints  # int64 [W]: a run that begins with this word must end before this word
    offsets: Ints  # int64 [B + 1]: first word of each example


def draw_masks(
    content: Ints,
    segment_lengths: Ints,
    num_specials: int,
    config: MaskConfig,
    vocabulary: Vocabulary,
    generator: np.random.Generator,
    *,
    cross_border: bool = False,
) -> tuple[Ints, Ints]:
    """Choose the tokens to predict, ascending flat indices [M], and what replaces them, [M].

    ``content`` [T] has no specials, ``segment_lengths`` [B, 2] are the tokens of A and of B. The specials of an example
    count for the budget. With ``cross_border`` runs and words go on from A to B, as in the official code.
    """
    starts = vocabulary.word_starts if config.whole_words else None
    words = find_words(content, segment_lengths, starts, cross_border=cross_border)
    budget = budgets(segment_lengths.sum(axis=1) + num_specials, config)
    first, size = choose_spans(words, budget, config.max_ngram, generator)
    order = np.argsort(first)
    first, size = words.first[first[order]], size[order]
    places = ranges(first, size)
    fate = generator.random(len(places)) if config.replace == "token" else np.repeat(generator.random(len(size)), size)
    replacements = np.where(fate < MASK_SHARE, vocabulary.mask_id, content[places])
    random = np.flatnonzero(fate >= MASK_SHARE + KEEP_SHARE)
    # As in the official code any piece may come, specials and the original one included.
    replacements[random] = generator.integers(vocabulary.size, size=len(random))
    return places, replacements


def budgets(lengths: Ints, config: MaskConfig) -> Ints:
    """Most predicted tokens of examples with these lengths, int64 [B]."""
    budget: Ints = np.maximum(1, np.rint(config.rate * lengths).astype(np.int64))
    if config.max_predictions is not None:
        budget = np.minimum(budget, config.max_predictions)
    return budget


def ngram_probabilities(max_ngram: int) -> npt.NDArray[np.float64]:
    """p(n) for n = 1 .. max_ngram, proportional to 1/n."""
    weights: npt.NDArray[np.float64] = 1 / np.arange(1, max_ngram + 1)
    return np.asarray(weights / weights.sum())


def find_words(content: Ints, segment_lengths: Ints, word_starts: Borders | None, *, cross_border: bool) -> Words:
    """Cut a flat batch into words; the first token of an example always begins one.

    Without ``cross_border`` so does the first token of B, and runs end with their segment; with it, a continuation
    piece at the beginning of B belongs to the last word of A.
    """
    ends = np.cumsum(segment_lengths.reshape(-1))
    example_begins = np.concatenate([[0], ends[1::2]])
    is_start = np.ones(len(content), dtype=np.bool_)
    if word_starts is not None:
        is_start = begins_words(word_starts, content)
        is_start[example_begins[:-1]] = True
    borders = example_begins
    if not cross_border:
        # Where B is empty its beginning is that of the next example, or the end of the batch.
        borders = np.concatenate([[0], ends])
        is_start[borders[borders < len(content)]] = True
    first = np.append(np.flatnonzero(is_start), len(content))
    words_before = np.searchsorted(first, borders)
    limit = np.repeat(words_before[1:], np.diff(words_before))
    return Words(first, limit, np.searchsorted(first, example_begins))


def choose_spans(words: Words, budget: Ints, max_ngram: int, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """Choose runs of words: int64 [R] first words and int64 [R] sizes in tokens, in no order.

    For each example, beginnings in random order until the budget is spent: draw n, take fewer words while the run
    exceeds what is left, pass over the beginning if even one word does or if a word of the run is taken.
    """
    num_words = len(words.limit)
    rows = np.repeat(np.arange(len(budget)), np.diff(words.offsets))
    order = np.argsort(rows + generator.random(num_words), kind="stable")
    cumulative = np.cumsum(ngram_probabilities(max_ngram))[:-1]
    wanted = 1 + np.searchsorted(cumulative, generator.random(num_words), side="right")
    wanted = np.minimum(wanted, (words.limit - np.arange(num_words))[order])

    taken = np.zeros(num_words + max_ngram, dtype=np.bool_)
    left = budget.copy()
    active = np.flatnonzero((np.diff(words.offsets) > 0) & (left > 0))
    candidate, last = words.offsets[active], words.offsets[active + 1]
    steps = np.arange(max_ngram)
    chosen_words, chosen_sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while active.size:
        word, n, room = order[candidate], wanted[candidate], left[active]
        begin = words.first[word]
        size = words.first[word + n] - begin
        while (too_long := (size > room) & (n > 1)).any():
            n = n - too_long
            size = words.first[word + n] - begin
        run = word[:, None] + steps
        in_run = steps < n[:, None]
        hit = np.flatnonzero((size <= room) & ~(taken[run] & in_run).any(axis=1))
        taken[run[hit][in_run[hit]]] = True
        left[active[hit]] -= size[hit]
        chosen_words.append(word[hit])
        chosen_sizes.append(size[hit])
        candidate += 1
        go_on = np.flatnonzero((left[active] > 0) & (candidate < last))
        if len(go_on) < len(active):
            active, candidate, last = active[go_on], candidate[go_on], last[go_on]
    return np.concatenate(chosen_words), np.concatenate(chosen_sizes)


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """All indices of the ranges, one after the other, int64 [sum of lengths].

    >>> ranges(np.array([7, 2]), np.array([2, 3]))
    array([7, 8, 2, 3, 4])
    """
    before = np.cumsum(lengths) - lengths
    indices: Ints = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return indices
