"""The folder for other tools: tokenizer.json gives our ids, specials and segments."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.text.folder import build_fast_tokenizer, copy_tokenizer
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import Tokenizer, TokenizerSettings
from litebert.text.train import TokenizerTrainConfig, train_tokenizer


@pytest.fixture(scope="session")
def fast(tiny_tokenizer: SentencePieceTokenizer) -> tokenizers.Tokenizer:
    return build_fast_tokenizer(tiny_tokenizer)


def fast_ids(fast: tokenizers.Tokenizer, text: str) -> list[int]:
    return list(fast.encode(text, add_special_tokens=False).ids)


def test_every_line_of_real_text(
    tiny_tokenizer: SentencePieceTokenizer, fast: tokenizers.Tokenizer, python_text: Path
) -> None:
    lines = python_text.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 500
    assert [fast_ids(fast, line) for line in lines] == tiny_tokenizer.encode_batch(lines)


@given(st.lists(st.sampled_from(
    ["the", "Value", "of", "(x)", "1998,", "a-b", "it's", "...", "Café", "naïve", "ﬁne", "½", "２",
     "e\u0301", "\u0301", "한국어", "日本", "हिन्दी", "русский", "£5", "–", '"so"', "\u200b",
     "\ufeff", "▁", "\x01", "\x1c", "\u00a0", "\u3000", "İ", "ǅ", "…", "`a`", "=", "x=1",
     "\u200d", "\u00ad"]
), max_size=8, unique=True), st.sampled_from(["", " ", "  ", "\t", "\u00a0 "]))  # fmt: skip
@settings(derandomize=True, max_examples=300)  # an exact tie between two paths may go either way
def test_odd_words_and_spaces(
    tiny_tokenizer: SentencePieceTokenizer, fast: tokenizers.Tokenizer, words: list[str], space: str
) -> None:
    text = space.join(words)
    assert fast_ids(fast, text) == tiny_tokenizer.encode(text)


def test_every_normalisation(in_languages: SentencePieceTokenizer, sentences: tuple[str, ...]) -> None:
    """Letters of many languages, composed or not, in capitals: equal ids through tokenizer.json."""
    fast = build_fast_tokenizer(in_languages)
    lines = [*sentences, *(unicodedata.normalize("NFD", line) for line in sentences)]
    lines += [line.upper() for line in sentences]
    lines += ["ΟΔΟΣ. ΟΔΟΣ.Α Σ Α'Σ ΣΣ", "Α·Σ ΟΔΟΣ\u0301", "ΣΑΣ-ΣΑΣ"]
    assert [fast_ids(fast, line) for line in lines] == in_languages.encode_batch(lines)


def test_what_each_normalisation_gives_back(in_languages: SentencePieceTokenizer, sentences: tuple[str, ...]) -> None:
    told = [in_languages.decode(in_languages.encode(line)) for line in sentences]
    if in_languages.settings.normalization == "none":
        assert told == list(sentences)
    elif in_languages.settings.normalization == "keep-accents":
        assert told == [unicodedata.normalize("NFKC", line).lower() for line in sentences]
    else:
        assert told[0] == "die große der tur uberraschte jurgen, denn große turen sind hier ublich."


def test_pairs_have_specials_and_segments(tiny_tokenizer: SentencePieceTokenizer, fast: tokenizers.Tokenizer) -> None:
    t = tiny_tokenizer
    first, second = t.encode("the first one"), t.encode("(a second) one")
    encoding = fast.encode("the first one", "(a second) one")
    assert encoding.ids == [t.cls_id, *first, t.sep_id, *second, t.sep_id]
    assert encoding.type_ids == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_a_mask_takes_the_place_of_one_piece(
    tiny_tokenizer: SentencePieceTokenizer, fast: tokenizers.Tokenizer
) -> None:
    t = tiny_tokenizer
    period, value = t.encode("a.")[-1], t.encode("value")
    assert fast_ids(fast, "the [MASK] value") == [*t.encode("the"), t.mask_id, *value]
    assert fast_ids(fast, "the [MASK].") == [*t.encode("the"), t.mask_id, period]


@given(st.text("abcde ,.()-", max_size=40))
def test_decoding_is_the_same(tiny_tokenizer: SentencePieceTokenizer, fast: tokenizers.Tokenizer, text: str) -> None:
    ids = tiny_tokenizer.encode(text)
    assert fast.decode(ids) == tiny_tokenizer.decode(ids)


@pytest.mark.parametrize("rule", ["intended", "off"])
def test_digit_comma_pieces(with_digit_commas: Tokenizer, rule: str) -> None:
    """Without the pieces that the rule splits, the best path for a year is the rule's."""
    tokenizer = SentencePieceTokenizer(with_digit_commas.model, TokenizerSettings(digit_comma=rule))  # type: ignore[arg-type]
    fast = build_fast_tokenizer(tokenizer)
    texts = [f"in {year}, and of {year}, at {year}" for year in range(1990, 1999)]
    assert [fast_ids(fast, text) for text in texts] == tokenizer.encode_batch(texts)
    split = set(tokenizer.split_ids)
    assert bool(split) == (rule == "intended")
    assert not split & {piece_id for text in texts for piece_id in fast_ids(fast, text)}


def test_cased_and_byte_fallback(tmp_path: Path, python_text: Path) -> None:
    config = TokenizerTrainConfig(
        input=(python_text,), out=tmp_path / "tok", vocab_size=700, cased=True, byte_fallback=True
    )
    tokenizer = train_tokenizer(config)
    fast = build_fast_tokenizer(tokenizer)
    text = "The Value of 日本 and 😀, or THE end"
    ids = tokenizer.encode(text)
    assert fast_ids(fast, text) == ids
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == fast.decode(ids) == text
    encoding = tokenizer.encode_with_offsets(text)
    assert encoding.ids == ids
    rows = zip(encoding.starts, encoding.ends, strict=True)
    assert "".join(text[start:end] for start, end in rows) == text.replace(" ", "")
    assert json.loads((tmp_path / "tok" / "tokenizer_config.json").read_text())["do_lower_case"] is False


def test_offsets_without_the_space_where_nothing_is_masked(
    tiny_tokenizer: SentencePieceTokenizer, tiny_tokenizer_dir: Path, tmp_path: Path, python_text: Path
) -> None:
    """The ids stay; slices are ours but for bare word marks; and there is a way back."""
    from tokenizers import Tokenizer as FastTokenizer

    for name in ("clean", "back"):
        (tmp_path / name).mkdir()
    copy_tokenizer(tiny_tokenizer_dir, tmp_path / "clean", masks=False)
    clean = FastTokenizer.from_file(str(tmp_path / "clean" / "tokenizer.json"))
    lines = python_text.read_text(encoding="utf-8").splitlines()[:300]
    lines += [" Ann  went to New\u00a0York (USA), in 1998, Cafe\u0301 \u0301x ", "\u200ba", "", "▁ x"]
    for line in lines:
        found, ours = clean.encode(line, add_special_tokens=False), tiny_tokenizer.encode(line)
        assert found.ids == ours
        if line.isascii():
            expected = tiny_tokenizer.encode_with_offsets(line)
            rows = zip(found.offsets, expected.starts, expected.ends, strict=True)
            assert all(span == (start, end) for span, start, end in rows if start < end)
        assert not any(line[start:end] != line[start:end].strip() for start, end in found.offsets)
    copy_tokenizer(tmp_path / "clean", tmp_path / "back", masks=True)
    original = (tiny_tokenizer_dir / "tokenizer.json").read_text(encoding="utf-8")
    again = (tmp_path / "back" / "tokenizer.json").read_text(encoding="utf-8")
    assert json.loads(again) == json.loads(original)


def test_settings_for_other_tools(tiny_tokenizer: SentencePieceTokenizer) -> None:
    config = tiny_tokenizer.settings.for_others(is_ours=True)
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert config["model_max_length"] == 512
    assert "token_type_ids" in config["model_input_names"]  # type: ignore[operator]
    assert config["digit_comma"] == "official"
