"""The tokenizer: equal to a plain reading of the official rules, fast path and slow path alike."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litebert.common.errors import ConfigError, DataError
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import Tokenizer, TokenizerSettings

TEXT = st.text(st.characters(codec="utf-8"), max_size=60) | st.text("ab e1239,.()-é½ ₂\u0301\t\u200b한", max_size=40)


def with_rule(tokenizer: Tokenizer, rule: str) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(tokenizer.model, TokenizerSettings(digit_comma=rule))  # type: ignore[arg-type]


def official_pieces(tokenizer: SentencePieceTokenizer, text: str, rule: str) -> list[str]:
    """The rule of the official code, piece by piece; `intended` with the comparison fixed."""
    processor = tokenizer.processor
    pieces: list[str] = []
    for piece in processor.encode_as_pieces(tokenizer.normalize(text)):
        if rule != "off" and len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            parts = processor.encode_as_pieces(piece[:-1].replace("▁", ""))
            if rule == "intended" and piece[0] != "▁" and parts[0][0] == "▁":
                if len(parts[0]) == 1:
                    parts = parts[1:]
                else:
                    parts[0] = parts[0][1:]
            pieces.extend([*parts, ","])
        else:
            pieces.append(piece)
    return pieces


@pytest.mark.parametrize("rule", ["official", "intended", "off"])
def test_digit_comma_rule(with_digit_commas: Tokenizer, rule: str) -> None:
    tokenizer = with_rule(with_digit_commas, rule)
    processor = tokenizer.processor
    texts = [
        f"in {a}, x{b}, and {a}{b}, or {b},{a}," for a in (*range(12), *range(1980, 2000)) for b in range(0, 30, 3)
    ]
    seen = set()
    for text in texts:
        expected = official_pieces(tokenizer, text, rule)
        assert tokenizer.pieces(text) == expected
        ids = [processor.piece_to_id(piece) for piece in expected]
        assert tokenizer.encode(text) == ids
        assert tokenizer.encode_with_offsets(text).ids == ids
        seen.update(processor.encode_as_pieces(tokenizer.normalize(text)))
    digit_commas = {piece for piece in seen if re.search(r"\d,$", piece)}
    assert any(piece[0] == "▁" for piece in digit_commas), "the rule was never needed"
    assert any(piece[0] != "▁" for piece in digit_commas), "the rules do not differ in these texts"


def test_the_rules_differ_only_inside_words(with_digit_commas: Tokenizer) -> None:
    official, intended = (with_rule(with_digit_commas, rule) for rule in ("official", "intended"))
    piece = next(piece for index in sorted(official.split_ids) if (piece := official.id_to_piece(index))[0] != "▁")
    text = f"a({piece}"  # a symbol stands alone, so the piece follows it inside the word
    assert "".join(official.pieces(text)).endswith(f"(▁{piece}")
    assert "".join(intended.pieces(text)).endswith(f"({piece}")


@given(texts=st.lists(TEXT, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_singles_and_offsets_agree(tiny_tokenizer: SentencePieceTokenizer, texts: list[str]) -> None:
    batch = tiny_tokenizer.encode_batch(texts)
    assert batch == [tiny_tokenizer.encode(text) for text in texts]
    assert batch == [tiny_tokenizer.encode_with_offsets(text).ids for text in texts]
    for text, ids in zip(texts, batch, strict=True):
        pieces = official_pieces(tiny_tokenizer, text, "official")
        assert tiny_tokenizer.pieces(text) == pieces
        assert ids == [tiny_tokenizer.processor.piece_to_id(piece) for piece in pieces]


@given(st.text(string.ascii_lowercase + " .,()-", max_size=60))
def test_decode_inverts_encode(tiny_tokenizer: SentencePieceTokenizer, text: str) -> None:
    normalized = tiny_tokenizer.normalize(text)
    assert tiny_tokenizer.decode(tiny_tokenizer.encode(text)) == normalized
    inside = [tiny_tokenizer.cls_id, *tiny_tokenizer.encode(text), tiny_tokenizer.sep_id]
    assert tiny_tokenizer.decode(inside) == normalized


def test_control_symbols_are_never_matched_in_text(tiny_tokenizer: SentencePieceTokenizer) -> None:
    ids = tiny_tokenizer.encode("[CLS] a [MASK] b [SEP] <pad>")
    specials = {tiny_tokenizer.cls_id, tiny_tokenizer.sep_id, tiny_tokenizer.mask_id}
    assert not specials & set(ids)
    assert tiny_tokenizer.pad_id not in ids


def test_official_ids(tiny_tokenizer: SentencePieceTokenizer) -> None:
    t = tiny_tokenizer
    assert (t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id) == (0, 1, 2, 3, 4)
    assert [t.id_to_piece(index) for index in range(5, 13)] == ["(", ")", '"', "-", ".", *"–£€"]
    assert t.vocab_size == 1000


def test_empty_text_has_no_pieces(tiny_tokenizer: SentencePieceTokenizer) -> None:
    assert tiny_tokenizer.encode_batch(["", "  \t\n", "\u200b"]) == [[], [], []]
    assert tiny_tokenizer.encode_batch([]) == []
    assert tiny_tokenizer.encode_with_offsets(" ").ids == []


def test_half_a_surrogate_pair_is_no_crash(tiny_tokenizer: SentencePieceTokenizer) -> None:
    assert tiny_tokenizer.encode("the \ud800 value") == tiny_tokenizer.encode("the \ufffd value")
    assert tiny_tokenizer.encode_with_offsets("\ud800").ids == tiny_tokenizer.encode("\ufffd")


def is_start_piece(piece: str) -> bool:
    """The start-piece rule in words: see the specification, section 2.4."""
    punctuation = set('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
    if piece.startswith(("▁", "<")) or piece in punctuation:
        return True
    return any(c not in punctuation and c.lower() not in string.ascii_lowercase for c in piece)


def test_word_starts(tiny_tokenizer: SentencePieceTokenizer, with_digit_commas: Tokenizer) -> None:
    for tokenizer in (tiny_tokenizer, with_digit_commas):
        starts = tokenizer.word_starts
        assert starts.shape == (tokenizer.vocab_size,)
        assert starts.dtype == bool
        specials = {tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}
        for index in range(tokenizer.vocab_size):
            expected = index in specials or is_start_piece(tokenizer.id_to_piece(index))
            assert starts[index] == expected, tokenizer.id_to_piece(index)


def test_saved_and_loaded_is_the_same(tiny_tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    tiny_tokenizer.save(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        "spiece.model", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    again = Tokenizer.load(tmp_path)
    assert again.fingerprint == tiny_tokenizer.fingerprint
    assert again.settings == tiny_tokenizer.settings


def test_a_bare_model_has_the_official_settings(tiny_tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(tiny_tokenizer.model)
    bare = Tokenizer.load(tmp_path)
    assert bare.settings == TokenizerSettings(lower=True, digit_comma="official")
    assert bare.fingerprint == tiny_tokenizer.fingerprint


def test_fingerprint_follows_what_changes_ids(tiny_tokenizer: SentencePieceTokenizer) -> None:
    def fingerprint(**changes: object) -> str:
        settings = TokenizerSettings(**changes)  # type: ignore[arg-type]
        return SentencePieceTokenizer(tiny_tokenizer.model, settings).fingerprint

    assert fingerprint(model_max_length=128) == tiny_tokenizer.fingerprint
    assert len({fingerprint(), fingerprint(lower=False), fingerprint(digit_comma="off")}) == 3


def test_a_folder_keeps_its_language(tiny_tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    settings = TokenizerSettings(language="de")
    named = SentencePieceTokenizer(tiny_tokenizer.model, settings)
    named.save(tmp_path)
    assert Tokenizer.load(tmp_path).settings == settings
    assert named.fingerprint == tiny_tokenizer.fingerprint
    config = tmp_path / "tokenizer_config.json"
    config.write_text(config.read_text().replace('"de"', "[7]"))
    assert Tokenizer.load(tmp_path).settings.language == ""


def test_cased_keeps_case(tiny_tokenizer: SentencePieceTokenizer) -> None:
    cased = SentencePieceTokenizer(tiny_tokenizer.model, TokenizerSettings(lower=False))
    assert cased.normalize("The Café") == "The Cafe"
    assert cased.encode("THE") != tiny_tokenizer.encode("THE") == cased.encode("the")


def test_a_missing_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        Tokenizer.load(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no spiece\.model, vocab\.txt or .* train one"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a model", None])
def test_a_damaged_model_says_so(tiny_tokenizer: SentencePieceTokenizer, tmp_path: Path, content: bytes | None) -> None:
    half = tiny_tokenizer.model[: len(tiny_tokenizer.model) // 2]
    (tmp_path / "spiece.model").write_bytes(half if content is None else content)
    with pytest.raises(DataError, match="is not a SentencePiece model") as caught:
        Tokenizer.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_model_without_mask_is_refused(tmp_path: Path) -> None:
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some words to learn from"] * 10),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=30,
        pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        control_symbols=["[CLS]", "[SEP]"],
        hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    with pytest.raises(DataError, match=r"no piece \[MASK\]"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"do_lower_case": "yes"}, "do_lower_case is 'yes'"),
        ({"digit_comma": "never"}, "digit_comma is 'never'; choose one of official"),
        ({"normalization": "nfc"}, "normalization is 'nfc'; choose one of official, keep-accents"),
    ],
)
def test_bad_settings_are_refused(
    tiny_tokenizer: SentencePieceTokenizer, tmp_path: Path, values: dict[str, object], complaint: str
) -> None:
    tiny_tokenizer.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ConfigError, match=complaint):
        Tokenizer.load(tmp_path)
