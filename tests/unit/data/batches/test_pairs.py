"""Laws of pairs: whole chunks, order and labels, other documents, truncation, short targets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.data.batches.example import ExampleConfig, Rules, Task
from litebert.data.batches.pairs import Pairs, form_pairs, truncated_lengths
from litebert.model.config import IGNORED_LABEL

DOCUMENTS = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=2, max_size=6)
LENGTHS = st.integers(8, 60)
RULES = st.sampled_from(["paper", "official", "balanced"])
SEEDS = st.integers(0, 1 << 30)


def offsets(documents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Sentence and document offsets of documents given as sentence lengths."""
    sentences = [length for document in documents for length in document]
    return np.cumsum([0, *sentences]), np.cumsum([0, *map(len, documents)])


def check_first_segment_is_the_chunk(
    pairs: Pairs, sentence_offsets: np.ndarray, elsewhere: np.ndarray, room: int
) -> None:
    """With B from elsewhere A is all that was taken from the walk; truncation may shorten it."""
    begin, end = sentence_offsets[pairs.chunks[elsewhere]].T
    first, size = pairs.starts[elsewhere, 0], pairs.lengths[elsewhere, 0]
    assert (begin <= first).all()
    assert (first + size <= end).all()
    untouched = pairs.lengths[elsewhere].sum(axis=1) < room
    assert (size == end - begin)[untouched].all()


def pairs_of(documents: list[list[int]], seed: int = 0, **settings: object) -> Pairs:
    config = ExampleConfig(**settings)  # type: ignore[arg-type]
    return form_pairs(*offsets(documents), config, np.random.default_rng(seed))


@settings(deadline=None)
@given(DOCUMENTS, LENGTHS, RULES, st.sampled_from(["sop", "nsp", "both", "none"]), SEEDS)
def test_every_sentence_enters_exactly_one_chunk(
    documents: list[list[int]], length: int, rules: Rules, task: Task, seed: int
) -> None:
    pairs = pairs_of(documents, seed, length=length, rules=rules, task=task)
    sentence_offsets, document_offsets = offsets(documents)
    taken = np.zeros(len(sentence_offsets) - 1, dtype=int)
    for first, last in pairs.chunks:
        taken[first:last] += 1
        document = np.searchsorted(document_offsets, first, side="right")
        assert last <= document_offsets[document], "a chunk ends with its document"
    # Only a chunk of one token, which cannot make two segments, is left out.
    left_out = np.flatnonzero(taken == 0)
    assert (np.diff(sentence_offsets)[left_out] == 1).all()
    assert taken.max(initial=0) <= 1
    if task == "none":
        assert not len(left_out)


@settings(deadline=None)
@given(DOCUMENTS, LENGTHS, st.sampled_from(["paper", "balanced"]), SEEDS)
def test_sop_is_two_consecutive_segments_swapped_iff_label_1(
    documents: list[list[int]], length: int, rules: Rules, seed: int
) -> None:
    pairs = pairs_of(documents, seed, length=length, task="sop", rules=rules)
    sentence_offsets, _ = offsets(documents)
    for (a, b), (size_a, size_b), label, (first, last) in zip(
        pairs.starts, pairs.lengths, pairs.labels, pairs.chunks, strict=True
    ):
        if label:
            a, b, size_a, size_b = b, a, size_b, size_a
        begin, end = sentence_offsets[first], sentence_offsets[last]
        assert begin <= a < a + size_a <= b < b + size_b <= end
        if end - begin <= length - 3:
            assert (a, a + size_a, b + size_b) == (begin, b, end), "nothing to truncate"
            assert last - first == 1 or b in sentence_offsets[first + 1 : last], "whole sentences"


@settings(deadline=None)
@given(DOCUMENTS, LENGTHS, RULES, SEEDS)
def test_nsp_negatives_come_from_another_document(
    documents: list[list[int]], length: int, rules: Rules, seed: int
) -> None:
    pairs = pairs_of(documents, seed, length=length, task="nsp", rules=rules)
    sentence_offsets, document_offsets = offsets(documents)
    document_ends = sentence_offsets[document_offsets]
    own = np.searchsorted(document_ends, pairs.starts, side="right")
    last = np.searchsorted(document_ends, pairs.starts + pairs.lengths - 1, side="right")
    assert (own == last).all(), "a segment lies in one document"
    assert ((own[:, 0] != own[:, 1]) == (pairs.labels == 1)).all()
    in_order = pairs.starts[:, 0] + pairs.lengths[:, 0] <= pairs.starts[:, 1]
    assert in_order[pairs.labels == 0].all()
    check_first_segment_is_the_chunk(pairs, sentence_offsets, pairs.labels == 1, length - 3)


@settings(deadline=None)
@given(DOCUMENTS, LENGTHS, SEEDS)
def test_official_single_sentence_gets_a_random_document_and_label_1(
    documents: list[list[int]], length: int, seed: int
) -> None:
    pairs = pairs_of(documents, seed, length=length, task="sop", rules="official")
    sentence_offsets, document_offsets = offsets(documents)
    document = np.searchsorted(sentence_offsets[document_offsets], pairs.starts, side="right")
    single = np.diff(pairs.chunks, axis=1)[:, 0] == 1
    assert (pairs.labels[single] == 1).all()
    assert ((document[:, 0] != document[:, 1]) == single).all()
    check_first_segment_is_the_chunk(pairs, sentence_offsets, single, length - 3)


@settings(deadline=None)
@given(DOCUMENTS, LENGTHS, RULES, st.sampled_from(["sop", "nsp", "both", "none"]), SEEDS)
def test_pairs_fit_and_are_filled(documents: list[list[int]], length: int, rules: Rules, task: Task, seed: int) -> None:
    pairs = pairs_of(documents, seed, length=length, rules=rules, task=task)
    room = length - (2 if task == "none" else 3)
    sizes = pairs.lengths.sum(axis=1)
    assert (sizes <= room).all()
    assert (pairs.lengths[:, 0] > 0).all()
    assert ((pairs.lengths[:, 1] > 0) == (task != "none")).all()
    if task == "none":
        assert (pairs.labels == IGNORED_LABEL).all()
    else:
        assert set(pairs.labels) <= {0, 1}
    if (task, rules) != ("sop", "paper"):
        return
    sentence_offsets, _ = offsets(documents)
    chunk_tokens = sentence_offsets[pairs.chunks[:, 1]] - sentence_offsets[pairs.chunks[:, 0]]
    assert (sizes == np.minimum(chunk_tokens, room)).all()
    last_sentence = np.diff(sentence_offsets)[pairs.chunks[:, 1] - 1]
    assert (chunk_tokens - last_sentence < room).all(), "a chunk stops once it is full"


@pytest.mark.parametrize(("rules", "least", "most"), [("paper", 0.58, 0.65), ("balanced", 0.49, 0.51)])
def test_lengths_tell_the_order_unless_the_rules_are_balanced(rules: Rules, least: float, most: float) -> None:
    sizes = np.random.default_rng(0).geometric(0.05, (4000, 30))
    pairs = pairs_of(sizes.tolist(), length=64, task="sop", rules=rules)
    longer = np.sign(pairs.lengths[:, 0] - pairs.lengths[:, 1])
    right = ((longer == 2 * pairs.labels - 1) + 0.5 * (longer == 0)).mean()
    assert len(pairs) > 30_000
    assert least < right < most


@settings(deadline=None)
@given(st.integers(1, 80), st.integers(0, 80), st.integers(2, 90))
def test_truncation_takes_from_the_longer_one_by_one(a: int, b: int, room: int) -> None:
    left_a, left_b = a, b
    while left_a + left_b > room:
        if left_a > left_b:
            left_a -= 1
        else:
            left_b -= 1
    found = truncated_lengths(np.array([a]), np.array([b]), room)
    assert (int(found[0][0]), int(found[1][0])) == (left_a, left_b)


def test_truncation_at_both_ends_is_binomial() -> None:
    pairs = pairs_of([[100]] * 4000, length=22, task="none", short_probability=0)
    front = pairs.starts[:, 0] - 100 * np.arange(4000)
    assert (pairs.lengths[:, 0] == 20).all()
    # Binomial(80, 1/2): mean 40, variance 20; five standard errors of each.
    assert abs(front.mean() - 40) < 5 * np.sqrt(20 / 4000)
    assert abs(front.var() - 20) < 5 * 20 * np.sqrt(2 / 4000)


def test_paper_draws_a_short_target_for_each_chunk() -> None:
    # Sentences of one token: a chunk has exactly its target length.
    pairs = pairs_of([[1] * 200_000, [1]], length=43, task="sop")
    targets = pairs.lengths.sum(axis=1)[:-1]
    n, share = len(targets), 0.1 * 38 / 39  # of the short targets 2..40, 40 is not short
    assert abs((targets < 40).mean() - share) < 5 * np.sqrt(share * (1 - share) / n)
    counts = np.bincount(targets, minlength=41)[2:40]
    expected = n * 0.1 / 39
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 38 + 5 * np.sqrt(2 * 38)


def test_official_draws_a_short_target_once_for_a_document() -> None:
    pairs = pairs_of([[1] * 400] * 1000, length=43, task="sop", rules="official")
    document = pairs.chunks[:, 0] // 400
    inner = pairs.chunks[:, 1] % 400 != 0
    targets = [set((pairs.chunks[inner, 1] - pairs.chunks[inner, 0])[document[inner] == d]) for d in range(1000)]
    assert all(len(values) == 1 for values in targets)
    short = np.mean([values != {40} for values in targets])
    assert abs(short - 0.1) < 5 * np.sqrt(0.09 / 1000) + 0.1 / 39


@pytest.mark.parametrize("task", ["sop", "nsp"])
def test_paper_labels_are_balanced_and_the_cut_is_uniform(task: str) -> None:
    pairs = pairs_of([[5] * 4000, [5] * 4000] * 10, length=43, task=task, short_probability=0)
    n = len(pairs)
    assert abs(pairs.labels.mean() - 0.5) < 5 * 0.5 / np.sqrt(n)
    full = pairs.lengths.sum(axis=1) == 40
    in_order = full & (pairs.labels == 0)
    cuts = np.bincount(pairs.lengths[in_order, 0] // 5, minlength=8)[1:8]
    expected = cuts.sum() / 7
    assert ((cuts - expected) ** 2 / expected).sum() < 6 + 5 * np.sqrt(12)


def test_both_tasks_have_a_third_of_the_pairs_each() -> None:
    documents = [[5] * 4000, [5] * 4000] * 10
    pairs = pairs_of(documents, length=43, task="both", short_probability=0)
    sentence_offsets, document_offsets = offsets(documents)
    document = np.searchsorted(sentence_offsets[document_offsets], pairs.starts, side="right")
    away = document[:, 0] != document[:, 1]
    swapped = ~away & (pairs.starts[:, 0] > pairs.starts[:, 1])
    assert ((away | swapped) == (pairs.labels == 1)).all()
    margin = 5 * np.sqrt(2 / 9 / len(pairs))
    assert abs(away.mean() - 1 / 3) < margin
    assert abs(swapped.mean() - 1 / 3) < margin


def test_a_segment_from_elsewhere_fills_the_target() -> None:
    # Sentences of one token: nothing overshoots, so nothing is truncated.
    pairs = pairs_of([[1] * 5000] * 20, length=43, task="nsp", short_probability=0)
    negative = pairs.labels == 1
    taken = np.diff(pairs.chunks, axis=1)[:, 0]
    assert (pairs.lengths[negative, 0] == taken[negative]).all()
    assert (pairs.lengths[negative].sum(axis=1) == 40).mean() > 0.98, "unless a document ends"


def test_single_sentence_splits_between_tokens_uniformly() -> None:
    pairs = pairs_of([[9]] * 16_000, length=64, task="sop")
    first = np.where(pairs.labels == 0, pairs.lengths[:, 0], pairs.lengths[:, 1])
    counts = np.bincount(first, minlength=9)[1:9]
    assert len(pairs) == 16_000
    assert ((counts - 2000) ** 2 / 2000).sum() < 7 + 5 * np.sqrt(14)
