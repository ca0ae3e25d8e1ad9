"""Windows, max context, alignment and decoding of answers: laws and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.tasks.base import Answer, Example, Feature, Passage
from litebert.tasks.forms.spans import SpanForm, align, gold_texts, max_context, window_starts
from word_tokenizer import WordTokenizer

PASSAGE = "Ann sat by the old river , and Bo read a long book to her until the sun went down ."


@given(st.integers(0, 200), st.integers(1, 60), st.integers(1, 60))
def test_windows_cover_every_piece_and_stop_at_the_end(pieces: int, size: int, stride: int) -> None:
    starts = window_starts(pieces, size, stride)
    covered = {p for start in starts for p in range(start, min(start + size, pieces))}
    assert covered == set(range(pieces))
    assert all(start + size < pieces for start in starts[:-1])


@given(st.integers(1, 120), st.integers(1, 40), st.integers(1, 40))
def test_each_piece_belongs_to_the_one_window_with_most_context(pieces: int, size: int, stride: int) -> None:
    starts = window_starts(pieces, size, stride)
    owned = max_context(starts, size, pieces)
    for piece in range(pieces):
        scores = {}
        for index, start in enumerate(starts):
            end = min(start + size, pieces)
            if start <= piece < end:
                context = min(piece - start, end - 1 - piece) + 0.01 * (end - start)
                scores[index] = context
        best = max(scores, key=lambda index: (scores[index], -index))
        owners = [i for i in scores if owned[i][piece - starts[i]]]
        assert owners == [best]


def test_answers_inside_pieces_are_widened() -> None:
    pieces = np.array([0, 4, 9]), np.array([3, 8, 12])
    assert align(*pieces, 4, 8) == (1, 1)
    assert align(*pieces, 5, 10) == (1, 2)
    assert align(*pieces, 3, 4) is None  # the space between two pieces


def passage_of(feature: Feature) -> Passage:
    assert feature.passage is not None
    return feature.passage


def all_answers(words: WordTokenizer) -> list[Example]:
    encoding = words.encode_with_offsets(PASSAGE)
    examples = []
    for first in range(len(encoding.ids)):
        for last in range(first, min(first + 4, len(encoding.ids))):
            start, end = encoding.starts[first], encoding.ends[last]
            gold = (Answer(PASSAGE[start:end], start),)
            examples.append(Example(f"{first}-{last}", PASSAGE, "who sat ?", gold=gold))
    return examples


def test_every_gold_answer_comes_back_from_some_window(words: WordTokenizer) -> None:
    examples = all_answers(words)
    form = SpanForm(stride=4)
    features = form.features(examples, words, max_length=16)
    assert len(features) > len(examples)
    counts = form.window_counts(examples, features)
    assert counts == {"exact": len(examples), "widened": 0, "lost": 0}
    outputs = []
    for feature in features:
        start, end = np.zeros((2, len(feature)), np.float32)
        assert feature.target is not None
        start[feature.target[0]] = end[feature.target[1]] = 9.0  # impossible windows point at [CLS]
        outputs.append({"start_logits": start, "end_logits": end})
    predictions = form.decode(examples, features, outputs)
    # An answer is eligible in a window that holds all of it and the most context of its start.
    eligible = {
        f.example
        for f in features
        if f.target is not None
        and not f.target[2]
        and passage_of(f).max_context[int(f.target[0]) - passage_of(f).first]
    }
    assert len(eligible) > 0.9 * len(examples)
    for index in eligible:
        assert predictions[index].value == gold_texts(examples[index])[0]


@given(st.integers(0, 2**32 - 1))
def test_decoding_equals_brute_force(words: WordTokenizer, seed: int) -> None:
    generator = np.random.default_rng(seed)
    form = SpanForm(stride=5, max_answer_length=4, num_best=6)
    example = Example("0", PASSAGE, "who sat ?")
    features = form.features([example], words, max_length=17)
    outputs = [
        {
            "start_logits": generator.normal(size=len(f)).astype(np.float32),
            "end_logits": generator.normal(size=len(f)).astype(np.float32),
        }
        for f in features
    ]
    spans: dict[tuple[int, int], float] = {}
    for feature, output in zip(features, outputs, strict=True):
        passage = passage_of(feature)
        for i in range(len(passage.starts)):
            for j in range(i, min(i + 4, len(passage.starts))):
                if passage.max_context[i]:
                    score = output["start_logits"][passage.first + i] + output["end_logits"][passage.first + j]
                    key = (int(passage.starts[i]), int(passage.ends[j]))
                    spans[key] = max(spans.get(key, -1e9), float(score))
    best = sorted(spans.items(), key=lambda item: -item[1])[:6]
    (prediction,) = form.decode([example], features, outputs)
    assert [(s.start, s.end) for s in prediction.spans] == [key for key, _ in best]
    assert [s.score for s in prediction.spans] == pytest.approx([score for _, score in best])
    assert sum(s.probability for s in prediction.spans) == pytest.approx(1.0)
    assert prediction.value == PASSAGE[best[0][0][0] : best[0][0][1]]


def test_windows_without_the_answer_point_at_cls(words: WordTokenizer) -> None:
    answer = Answer("Ann", 0)
    form = SpanForm(stride=4)
    features = form.features([Example("0", PASSAGE, "who ?", gold=(answer,))], words, 14)
    targets = [np.asarray(feature.target).tolist() for feature in features]
    assert targets[0] == [4, 4, 0]
    assert all(target == [0, 0, 1] for target in targets[1:])
    unanswerable = form.features([Example("0", PASSAGE, "who ?", gold=())], words, 14)
    assert all(np.asarray(f.target).tolist() == [0, 0, 1] for f in unanswerable)


def test_forbidden_positions_are_question_and_separators(words: WordTokenizer) -> None:
    (feature,) = SpanForm().features([Example("0", "Ann sat .", "who ?")], words, 32)
    assert feature.forbidden().tolist() == [0, 1, 1, 1, 0, 0, 0, 1]


def test_no_answer_when_cls_scores_highest(words: WordTokenizer) -> None:
    form = SpanForm(may_be_unanswerable=True)
    example = Example("0", "Ann sat .", "who ?")
    (feature,) = form.features([example], words, 32)
    start, end = np.zeros((2, len(feature)), np.float32)
    start[4] = end[4] = 2.0
    for null, expected in ((0.0, "Ann"), (3.0, "")):
        start[0] = end[0] = null
        (prediction,) = form.decode([example], [feature], [{"start_logits": start, "end_logits": end}])
        assert prediction.value == expected
        assert prediction.no_answer == pytest.approx(1 / (1 + np.exp(4.0 - 2 * null)))


def beam(start: int, end: int, logit: float) -> dict[str, np.ndarray]:
    return {
        "start_top_index": np.array([start, 0], np.float32),
        "start_top_log_probs": np.log(np.array([0.8, 0.2], np.float32)),
        "end_top_index": np.array([[end, 0], [0, end]], np.float32),
        "end_top_log_probs": np.log(np.array([[0.75, 0.25], [0.5, 0.5]], np.float32)),
        "answer_logits": np.array(logit, np.float32),
    }


def test_beams_of_the_papers_head(words: WordTokenizer) -> None:
    form = SpanForm(may_be_unanswerable=True)
    example = Example("0", "Ann sat .", "who ?")
    (feature,) = form.features([example], words, 32)
    (prediction,) = form.decode([example], [feature], [beam(4, 5, -1.0)])
    assert prediction.value == "Ann sat"
    assert prediction.spans[0].score == pytest.approx(np.log(0.6))
    (prediction,) = form.decode([example], [feature], [beam(4, 5, 1.0)])
    assert prediction.value == ""
    members = [beam(4, 5, -1.0), beam(4, 4, -2.0), beam(4, 4, -3.0)]
    both = form.changed(ensemble="probabilities").combine(members)
    (prediction,) = form.decode([example], [feature], [both])
    assert prediction.value == "Ann"
    assert np.exp(prediction.spans[0].score) == pytest.approx(0.4)
    assert prediction.no_answer == pytest.approx(1 / (1 + np.exp(2.0)))


def test_ensembles_as_the_official_code_has_them(words: WordTokenizer) -> None:
    """Log scores are averaged over the models that hold a span; each model's least null counts."""
    form = SpanForm(may_be_unanswerable=True, stride=2)
    example = Example("0", "Ann sat .", "who ?")
    (feature,) = form.features([example], words, 32)
    members = [beam(4, 5, -1.0), beam(4, 4, -2.0), beam(4, 4, -4.0)]
    (prediction,) = form.decode([example], [feature], [form.combine(members)])
    assert prediction.spans[0].score == pytest.approx(np.log(0.6))  # one model of three, or two
    # Two windows: the first model is surest in the first, the second in the second.
    windows = [form.combine([beam(4, 5, -3.0), beam(4, 5, 1.0)]), form.combine([beam(4, 5, 2.0), beam(4, 5, -1.0)])]
    (prediction,) = form.decode([example], [feature, feature], windows)
    assert prediction.no_answer == pytest.approx(1 / (1 + np.exp(2.0)))
    apart = form.changed(ensemble="probabilities")
    windows = [apart.combine([beam(4, 5, -3.0), beam(4, 5, 1.0)]), windows[1]]
    (prediction,) = form.decode([example], [feature], windows[:1])
    assert prediction.no_answer == pytest.approx(1 / (1 + np.exp(1.0)))


def test_a_passage_without_pieces_has_no_answer(words: WordTokenizer) -> None:
    form = SpanForm(may_be_unanswerable=True)
    example = Example("0", " ", "who ?")
    (feature,) = form.features([example], words, 32)
    zeros = np.zeros(len(feature), np.float32)
    (prediction,) = form.decode([example], [feature], [{"start_logits": zeros, "end_logits": zeros}])
    assert prediction.value == ""
    assert prediction.no_answer == 1.0


def test_a_short_input_leaves_half_of_it_to_the_passage(words: WordTokenizer) -> None:
    example = Example("0", PASSAGE, "who " * 70 + "sat ?")
    for max_length, kept in ((8, 4), (64, 32), (512, 64)):
        features = SpanForm().features([example], words, max_length)
        assert max(map(len, features)) <= max_length
        assert {passage_of(feature).first for feature in features} == {kept + 2}
