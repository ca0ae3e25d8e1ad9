"""Masks in texts become the mask id exactly as if a word had been masked in training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.common.errors import InputError
from litebert.model.head_table import Head
from litebert.predict import questions
from litebert.predict.inputs import pad, split
from litebert.tasks.base import Feature, Row
from litebert.text.tokenizer import Tokenizer


@dataclass
class Reader:
    tokenizer: Tokenizer
    max_length: int = 64


def encoded(text: str, tokenizer: Tokenizer) -> list[int]:
    question = questions.fill_mask(text, Reader(tokenizer, 4096), top_k=3)
    ids: list[int] = question.features[0].rows[0].ids.tolist()
    return ids


def test_a_mask_replaces_a_whole_word(tiny_tokenizer: Tokenizer) -> None:
    plain = tiny_tokenizer.encode("the value of the expression.")
    for index, piece in enumerate(tiny_tokenizer.pieces("the value of the expression.")):
        if piece == "▁of":
            plain[index] = tiny_tokenizer.mask_id
    expected = [tiny_tokenizer.cls_id, *plain, tiny_tokenizer.sep_id]
    assert encoded("the value [MASK] the expression.", tiny_tokenizer) == expected
    assert encoded("the value [mask] the expression.", tiny_tokenizer) == expected


def test_punctuation_after_a_mask_gets_no_word_mark(tiny_tokenizer: Tokenizer) -> None:
    dot = encoded("it is [MASK].", tiny_tokenizer)[-2]
    assert tiny_tokenizer.id_to_piece(dot) == "."


@pytest.mark.parametrize(
    ("text", "count"), [("[MASK]", 1), ("[MASK][MASK]", 2), ("[MASK] [MASK] a", 2), ("a[MASK]b", 1), ("[MASK]日本", 1)]
)
def test_every_mask_is_found(tiny_tokenizer: Tokenizer, text: str, count: int) -> None:
    question = questions.fill_mask(text, Reader(tiny_tokenizer), top_k=3)
    (feature,) = question.features
    assert len(feature.masked) == count
    ids = feature.rows[0].ids.tolist()
    assert all(ids[i] == tiny_tokenizer.mask_id for i in feature.masked)
    assert ids.count(tiny_tokenizer.mask_id) == count


def test_masks_are_found_where_unknown_characters_become_bytes(tmp_path: Path, python_text: Path) -> None:
    from litebert.text.train import TokenizerTrainConfig, train_tokenizer

    folder = tmp_path / "bytes"
    train_tokenizer(TokenizerTrainConfig(input=(python_text,), out=folder, vocab_size=700, byte_fallback=True))
    tokenizer = Tokenizer.load(folder)
    assert "<0xEE>" in tokenizer.pieces("\ue000")
    expected = [*tokenizer.encode("the"), tokenizer.mask_id, *tokenizer.encode("value")]
    assert encoded("the [MASK] value", tokenizer)[1:-1] == expected
    before, after = tokenizer.encode("日"), tokenizer.encode("a日")[len(tokenizer.encode("a")) :]
    masked = [*before, tokenizer.mask_id, tokenizer.mask_id, *after]
    assert encoded("日[MASK] [MASK]日", tokenizer)[1:-1] == masked


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(max_size=12), min_size=2, max_size=5))
def test_any_text_around_masks_is_encoded(tiny_tokenizer: Tokenizer, parts: list[str]) -> None:
    clean = [part.replace("[", "(") for part in parts]
    ids = encoded("[MASK]".join(clean), tiny_tokenizer)
    assert ids.count(tiny_tokenizer.mask_id) == len(parts) - 1


def test_control_words_in_a_text_are_only_text(tiny_tokenizer: Tokenizer) -> None:
    ids = encoded("[CLS] [SEP] [MASK] <pad>", tiny_tokenizer)
    assert ids.count(tiny_tokenizer.cls_id) == 1
    assert ids.count(tiny_tokenizer.sep_id) == 1
    assert tiny_tokenizer.pad_id not in ids


@pytest.mark.parametrize(("text", "reason"), [("no mask here", "has no"), ("[MASK] " * 70, "shorten it")])
def test_what_cannot_be_asked_says_why(tiny_tokenizer: Tokenizer, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        questions.fill_mask(text, Reader(tiny_tokenizer), top_k=3)


def test_candidates_are_the_best_words_in_order(tiny_tokenizer: Tokenizer) -> None:
    question = questions.fill_mask("[MASK] is", Reader(tiny_tokenizer), top_k=4)
    logits = np.random.default_rng(0).standard_normal((1, tiny_tokenizer.vocab_size))
    filled = question.decode([{"masked_logits": logits.astype(np.float32)}])
    best = np.argsort(-logits[0])[:4]
    assert [candidate.token_id for candidate in filled.masks[0]] == best.tolist()
    scores = [candidate.score for candidate in filled.masks[0]]
    assert scores == sorted(scores, reverse=True)
    expected = np.exp(logits[0, best[0]]) / np.exp(logits[0]).sum()
    assert scores[0] == pytest.approx(expected, rel=1e-5)


def feature_of(ids: list[int], second: int, masked: tuple[int, ...] = ()) -> Feature:
    return Feature(0, (Row(np.array(ids, np.int32), second),), masked=masked)


def test_padding_and_splitting_are_inverse() -> None:
    features = [feature_of([2, 5, 4, 3], 2, (2,)), feature_of([2, 3], 2)]
    inputs = pad(features, pad_id=0)
    assert inputs.input_ids.tolist() == [[2, 5, 4, 3], [2, 3, 0, 0]]
    assert inputs.attention_mask is not None
    assert inputs.attention_mask.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert inputs.masked_positions.tolist() == [2]
    hidden = inputs.input_ids[:, :, None].astype(np.float32)
    rows = split(features, {"last_hidden_state": hidden, "masked_logits": np.ones((1, 9), np.float32)})
    assert [row["last_hidden_state"].ravel().tolist() for row in rows] == [[2, 5, 4, 3], [2, 3]]
    assert [len(row["masked_logits"]) for row in rows] == [1, 0]


def test_no_mask_is_made_when_nothing_is_padded() -> None:
    assert pad([feature_of([2, 3], 2)] * 3, pad_id=0).attention_mask is None


def test_the_filled_text_is_the_users_own(model_folder: Callable[[Head], Path]) -> None:
    """Case, accents and spaces stay; a continuation joins the word before it."""
    from litebert.predict.predictor import Predictor
    from litebert.predict.questions import _MASK as MASK
    from litebert.predict.questions import Candidate, _put

    predictor = Predictor.load(model_folder("pretraining"))
    given = "Où est la  [MASK], Zoë?\n[MASK] NOW [mask]"
    (filled,) = predictor.fill_mask([given], 2)
    for part in ("Où est la", ", Zoë?", " NOW"):
        assert part in filled.text
    assert "[MASK]" not in filled.text.upper()
    for candidates in filled.masks:
        for one in candidates:
            assert one.is_continuation != predictor.tokenizer.spell(one.token_id)[0]
    for text, word, part in (
        ("walk [MASK].", "walk home.", "walking."),
        ("walk[MASK].", "walk home.", "walking."),
        ("walk \n[MASK]", "walk \nhome", "walking"),
        ("[MASK] it", "home it", "ing it"),
    ):
        home, ing = Candidate("home", 1, 1.0), Candidate("ing", 2, 1.0, True)
        assert MASK.sub(partial(_put, candidate=home), text) == word
        assert MASK.sub(partial(_put, candidate=ing), text) == part
