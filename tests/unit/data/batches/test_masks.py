"""Laws of masks: the official selection, budget, whole words, n-grams, borders, 80/10/10."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.common.errors import ConfigError
from litebert.data.batches.example import MaskConfig, Vocabulary
from litebert.data.batches.masks import budgets, choose_spans, draw_masks, find_words, ngram_probabilities, ranges

Examples = list[tuple[list[int], list[int]]]
"""Tokens of A and B."""
Replace = Literal["token", "span"]

SPECIAL = -1
WORD_STARTS = np.arange(40) % 3 > 0
VOCABULARY = Vocabulary(WORD_STARTS)

TOKENS = st.integers(5, 39)
EXAMPLES = st.lists(
    st.tuples(st.lists(TOKENS, min_size=1, max_size=40), st.lists(TOKENS, max_size=40)), min_size=1, max_size=5
)
SEEDS = st.integers(0, 1 << 30)


def flat(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Content tokens and segment lengths of examples given as (A, B)."""
    content = np.array([token for a, b in examples for token in [*a, *b]])
    return content, np.array([[len(a), len(b)] for a, b in examples])


def sequential_words(a: list[int], b: list[int], cross_border: bool) -> list[list[int]]:
    """Places of each word, walking over [CLS] A [SEP] B [SEP] token by token."""
    words: list[list[int]] = []
    begins_segment = True
    for place, token in enumerate([SPECIAL, *a, SPECIAL, *b, SPECIAL]):
        if token == SPECIAL:
            begins_segment = True
            continue
        new = WORD_STARTS[token] or not words or (begins_segment and not cross_border)
        if new:
            words.append([place])
        else:
            words[-1].append(place)
        begins_segment = False
    return words


def sequential_masks(words: list[list[int]], border: int, budget: int, order: list[int], wanted: list[int]) -> set[int]:
    """The official selection, one beginning after the other; no run passes ``border``."""
    masked: set[int] = set()
    for word in order:
        if len(masked) >= budget:
            break
        n = wanted[word]
        run = words[word : word + n]
        run = [w for w in run if (w[0] < border) == (run[0][0] < border)]
        while len(masked) + sum(map(len, run)) > budget and len(run) > 1:
            run = run[:-1]
        places = {place for w in run for place in w}
        if len(masked) + len(places) > budget or places & masked:
            continue
        masked |= places
    return masked


@settings(deadline=None)
@given(EXAMPLES, st.booleans(), st.integers(1, 4), st.floats(0.05, 0.6), SEEDS)
def test_selection_equals_the_sequential_one(
    examples: Examples, cross_border: bool, max_ngram: int, rate: float, seed: int
) -> None:
    content, lengths = flat(examples)
    words = find_words(content, lengths, WORD_STARTS, cross_border=cross_border)
    budget = budgets(lengths.sum(axis=1) + 3, MaskConfig(rate=rate))
    chosen, sizes = choose_spans(words, budget, max_ngram, np.random.default_rng(seed))
    places = set(ranges(words.first[chosen], sizes).tolist())

    generator = np.random.default_rng(seed)
    keys = generator.random(len(words.limit))
    cumulative = np.cumsum(ngram_probabilities(max_ngram))[:-1]
    n = 1 + np.searchsorted(cumulative, generator.random(len(words.limit)), side="right")
    n_by_word = np.zeros(len(keys), dtype=int)
    expected, first_word, first_token = set(), 0, 0
    rows = np.repeat(np.arange(len(examples)), np.diff(words.offsets))
    n_by_word[np.lexsort((keys, rows))] = n  # n is drawn per turn, not per word
    for row, (a, b) in enumerate(examples):
        spelled = sequential_words(a, b, cross_border)
        own = slice(first_word, first_word + len(spelled))
        assert words.offsets[row + 1] - words.offsets[row] == len(spelled)
        masked = sequential_masks(
            spelled,
            10**9 if cross_border else len(a) + 1,
            int(budget[row]),
            np.argsort(keys[own]).tolist(),
            n_by_word[own].tolist(),
        )
        expected |= {first_token + place - 1 - (place > len(a)) for place in masked}
        first_word += len(spelled)
        first_token += len(a) + len(b)
    assert places == expected


@settings(deadline=None)
@given(EXAMPLES, st.booleans(), st.sampled_from(["token", "span"]), SEEDS)
def test_budget_whole_words_and_borders(examples: Examples, cross_border: bool, replace: Replace, seed: int) -> None:
    content, lengths = flat(examples)
    config = MaskConfig(rate=0.3, max_predictions=9, replace=replace)
    generator = np.random.default_rng(seed)
    places, _ = draw_masks(content, lengths, 3, config, VOCABULARY, generator, cross_border=cross_border)
    assert (np.diff(places) > 0).all()
    row = np.searchsorted(np.cumsum(lengths.sum(axis=1)), places, side="right")
    count = np.bincount(row, minlength=len(lengths))
    budget = budgets(lengths.sum(axis=1) + 3, config)
    assert (count <= budget).all()
    masked = np.zeros(len(content), dtype=bool)
    masked[places] = True
    words = find_words(content, lengths, WORD_STARTS, cross_border=cross_border)
    for first, last in zip(words.first[:-1], words.first[1:], strict=True):
        assert masked[first:last].all() or not masked[first:last].any()
    # Where every word is one token the budget is always reached.
    plain = MaskConfig(rate=0.3, whole_words=False, max_ngram=1)
    places, _ = draw_masks(content, lengths, 3, plain, VOCABULARY, generator)
    row = np.searchsorted(np.cumsum(lengths.sum(axis=1)), places, side="right")
    reachable = np.minimum(budgets(lengths.sum(axis=1) + 3, plain), lengths.sum(axis=1))
    assert (np.bincount(row, minlength=len(lengths)) == reachable).all()


def test_a_run_never_crosses_the_border_unless_official() -> None:
    content, lengths = np.full(20, 7), np.array([[10, 10]])
    for cross_border in (False, True):
        words = find_words(content, lengths, WORD_STARTS, cross_border=cross_border)
        crossing = 0
        for seed in range(300):
            generator = np.random.default_rng(seed)
            chosen, sizes = choose_spans(words, np.array([6]), 3, generator)
            crossing += int(((chosen < 10) & (chosen + sizes > 10)).sum())
        assert (crossing > 0) == cross_border


def test_a_continuation_at_the_beginning_of_b_joins_a_only_in_the_official_rules() -> None:
    content, lengths = np.array([7, 8, 9, 7]), np.array([[2, 2]])  # 9 continues a word
    official = find_words(content, lengths, WORD_STARTS, cross_border=True)
    ours = find_words(content, lengths, WORD_STARTS, cross_border=False)
    assert official.first.tolist() == [0, 1, 3, 4]
    assert ours.first.tolist() == [0, 1, 2, 3, 4]
    assert ours.limit.tolist() == [2, 2, 4, 4]


@pytest.mark.parametrize("max_ngram", [1, 2, 3, 5])
def test_ngram_law(max_ngram: int) -> None:
    num_examples, size = 20_000, 12
    content = np.full(num_examples * size, 7)
    lengths = np.tile([size, 0], (num_examples, 1))
    words = find_words(content, lengths, None, cross_border=True)
    budget = np.full(num_examples, max_ngram)
    generator = np.random.default_rng(0)
    chosen, sizes = choose_spans(words, budget, max_ngram, generator)
    # The first beginning of each example is free to have any n, unless it is near the end.
    inner = chosen[:num_examples] % size <= size - max_ngram
    counts = np.bincount(sizes[:num_examples][inner], minlength=max_ngram + 1)[1:]
    harmonic = sum(1 / n for n in range(1, max_ngram + 1))
    expected = inner.sum() / harmonic / np.arange(1, max_ngram + 1)
    degrees = max_ngram - 1
    assert ((counts - expected) ** 2 / expected).sum() <= degrees + 5 * np.sqrt(2 * degrees)


def test_budget_is_the_official_rounding() -> None:
    lengths = np.arange(3, 600)
    expected = [max(1, round(0.15 * length)) for length in lengths.tolist()]
    assert budgets(lengths, MaskConfig()).tolist() == expected
    capped = budgets(lengths, MaskConfig(max_predictions=20))
    assert capped.tolist() == [min(20, value) for value in expected]


@pytest.mark.parametrize("replace", ["token", "span"])
def test_replacement_shares(replace: Replace) -> None:
    num_examples, size = 400, 500
    generator = np.random.default_rng(1)
    content = generator.integers(5, 40, size=num_examples * size)
    lengths = np.tile([size - 100, 100], (num_examples, 1))
    config = MaskConfig(replace=replace)
    places, replacements = draw_masks(content, lengths, 3, config, VOCABULARY, generator)
    original = content[places]
    n, size_v = len(original), VOCABULARY.size
    # A random piece is the original or [MASK] once in V times.
    expected = {"mask": 0.8 + 0.1 / size_v, "keep": 0.1 + 0.1 / size_v, "random": 0.1 - 0.2 / size_v}
    found = {"mask": (replacements == VOCABULARY.mask_id).mean(), "keep": (replacements == original).mean()}
    found["random"] = 1 - found["mask"] - found["keep"]
    clusters = 1 if replace == "token" else 4  # a span decides for all of its tokens
    for kind, share in expected.items():
        assert abs(found[kind] - share) < 5 * np.sqrt(clusters * share * (1 - share) / n), kind
    random = replacements[(replacements != VOCABULARY.mask_id) & (replacements != original)]
    counts = np.delete(np.bincount(random, minlength=size_v), VOCABULARY.mask_id)
    assert (counts[:4] > 0).all(), "specials may come, as in the official code"
    # Pieces of the text come a little less often: they may be the original.
    expected_counts = np.where(np.arange(size_v) < 5, 1, 1 - 1 / 35)
    expected_counts = np.delete(expected_counts, VOCABULARY.mask_id)
    expected_counts *= counts.sum() / expected_counts.sum()
    chi2 = ((counts - expected_counts) ** 2 / expected_counts).sum()
    assert chi2 < (size_v - 2) + 5 * np.sqrt(2 * (size_v - 2))


def test_span_replacement_decides_once_for_a_run() -> None:
    content, lengths = np.full(3000, 7), np.array([[3000, 0]])
    config = MaskConfig(rate=0.05, max_ngram=3, replace="span")
    generator = np.random.default_rng(3)
    places, replacements = draw_masks(content, lengths, 3, config, VOCABULARY, generator)
    kinds = np.where(replacements == 4, 0, np.where(replacements == 7, 1, 2))
    neighbours = np.diff(places) == 1
    same = kinds[1:][neighbours] == kinds[:-1][neighbours]
    token_places, _ = draw_masks(content, lengths, 3, MaskConfig(rate=0.05), VOCABULARY, np.random.default_rng(3))
    assert (token_places == places).all(), "the same places in both modes"
    assert same.mean() > 0.9, "only runs that happen to touch may differ"


@pytest.mark.parametrize("settings", [{"rate": 0.0}, {"rate": 1.0}, {"max_predictions": 0}, {"max_ngram": 0}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        MaskConfig(**settings)  # type: ignore[arg-type]
