"""Vocabularies of others: WordPiece, a folder saved again by other tools, and what is refused."""

from __future__ import annotations

import json
import shutil
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litebert.common.errors import DataError
from litebert.text.folder import copy_tokenizer
from litebert.text.foreign import JsonTokenizer
from litebert.text.tokenizer import Tokenizer, open_tokenizer

PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "capital", "of", "korea", "##n", "is",
    "seoul", ".", ",", "대한", "##민국", "##의", "수도", "##는", "我", "们", "爱", "cafe", "19",
    "##98",
]  # fmt: skip


@pytest.fixture
def wordpiece(tmp_path: Path) -> Path:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def saved_again(tiny_tokenizer_dir: Path, tmp_path: Path) -> Path:
    """What other tools leave of a folder of ours."""
    shutil.copytree(tiny_tokenizer_dir, tmp_path / "tok")
    (tmp_path / "tok" / "spiece.model").unlink()
    return tmp_path / "tok"


def test_another_vocabulary_does_not_agree(wordpiece: Path, tiny_tokenizer: Tokenizer) -> None:
    assert not Tokenizer.load(wordpiece).agrees_with(tiny_tokenizer)
    cased = replace(tiny_tokenizer.settings, lower=False)
    assert not open_tokenizer(tiny_tokenizer.model, cased).agrees_with(tiny_tokenizer)


def test_wordpiece_ids_offsets_and_words(wordpiece: Path) -> None:
    tokenizer = Tokenizer.load(wordpiece)
    assert isinstance(tokenizer, JsonTokenizer)
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id) == (0, 1, 4)
    text = "  The Korean Café, 我们 爱 xyz 1998."
    encoding = tokenizer.encode_with_offsets(text)
    assert encoding.ids == tokenizer.encode(text)
    pieces = ["the", "korea", "##n", "cafe", ",", "我", "们", "爱", "xyz", "19", "##98", "."]
    assert tokenizer.pieces(text) == pieces
    slices = [text[a:b] for a, b in zip(encoding.starts, encoding.ends, strict=True)]
    assert slices == ["The", "Korea", "n", "Café", ",", "我", "们", "爱", "xyz", "19", "98", "."]
    assert tokenizer.decode(tokenizer.encode("The Korean capital")) == "the korean capital"
    starts = tokenizer.word_borders("unicode")[tokenizer.encode("korean 1998")]
    assert starts.tolist() == [True, False, True, False]


def test_special_pieces_in_a_text_are_text_except_masks(wordpiece: Path) -> None:
    tokenizer = Tokenizer.load(wordpiece)
    assert tokenizer.sep_id not in tokenizer.encode("is [SEP] the")
    assert tokenizer.encode_masked("the [mask] is [MASK].") == [5, 4, 10, 4, 12]


def test_settings_of_a_wordpiece_folder_are_followed(wordpiece: Path) -> None:
    config = wordpiece / "tokenizer_config.json"
    config.write_text(json.dumps({"do_lower_case": False, "strip_accents": False}))
    assert Tokenizer.load(wordpiece).encode("The the cafe\u0301") == [1, 5, 1]


def test_a_folder_saved_again_gives_the_same(tiny_tokenizer: Tokenizer, saved_again: Path) -> None:
    again = Tokenizer.load(saved_again)
    assert again.special_ids == tiny_tokenizer.special_ids
    assert again.vocab_size == tiny_tokenizer.vocab_size
    assert again.word_rule == "official"
    assert again.agrees_with(tiny_tokenizer)
    assert tiny_tokenizer.agrees_with(again)
    assert (again.word_starts == tiny_tokenizer.word_starts).all()
    text = " The  value of Cafe\u0301 (x) in 1998, a-b"
    ours, theirs = tiny_tokenizer.encode_with_offsets(text), again.encode_with_offsets(text)
    assert theirs == ours
    masked = "the [MASK], a [MASK] value"
    assert again.encode_masked(masked) == tiny_tokenizer.encode_masked(masked)
    assert again.decode(ours.ids) == tiny_tokenizer.decode(ours.ids)


@given(text=st.text("ab E1,.(é한\u0301 \t", max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_offsets_lead_to_the_raw_text(saved_again: Path, text: str) -> None:
    encoding = open_tokenizer(
        (saved_again / "tokenizer.json").read_bytes(), Tokenizer.load(saved_again).settings
    ).encode_with_offsets(text)
    covered = set[int]()
    for start, end in zip(encoding.starts, encoding.ends, strict=True):
        assert 0 <= start <= end <= len(text)
        assert start == end or not (text[start].isspace() or text[end - 1].isspace())
        covered.update(range(start, end))
    left_out = [c for index, c in enumerate(text) if index not in covered]
    assert all(c.isspace() or unicodedata.combining(c) for c in left_out)


def test_files_that_other_tools_need_are_made(wordpiece: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    copy_tokenizer(wordpiece, target)
    assert {path.name for path in target.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    copied, original = Tokenizer.load(target), Tokenizer.load(wordpiece)
    assert copied.fingerprint == original.fingerprint
    assert copied.special_ids == original.special_ids
    assert copied.encode("the koreans") == original.encode("the koreans")


def refuse(folder: Path, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint) as caught:
        Tokenizer.load(folder)
    assert "\n" not in str(caught.value)


def test_a_vocabulary_without_mask_or_with_twins_is_refused(wordpiece: Path) -> None:
    path = wordpiece / "vocab.txt"
    path.write_bytes("\r\n".join(PIECES).encode())  # as the Korean ALBERT has it
    assert Tokenizer.load(wordpiece).encode("the capital") == [5, 6]
    path.write_text("\n".join(PIECES[:4] + PIECES[5:]), encoding="utf-8")
    refuse(wordpiece, r"vocab\.txt has no piece \[MASK\]")
    path.write_text("\n".join([*PIECES, "capital"]), encoding="utf-8")
    refuse(wordpiece, r"vocab\.txt has the piece 'capital' 2 times")
    path.write_bytes(b"[PAD]\n\xff\n")
    refuse(wordpiece, r"vocab\.txt is not UTF-8")


def test_other_kinds_are_refused_with_the_reason(saved_again: Path) -> None:
    path = saved_again / "tokenizer.json"
    parts = json.loads(path.read_text(encoding="utf-8"))
    twin = {**parts["model"], "vocab": [*parts["model"]["vocab"], parts["model"]["vocab"][7]]}
    path.write_text(json.dumps({**parts, "model": twin}))
    refuse(saved_again, r"tokenizer\.json has the piece .* 2 times")
    no_mask = [row for row in parts["model"]["vocab"] if row[0] != "[MASK]"]
    added = [token for token in parts["added_tokens"] if token["content"] != "[MASK]"]
    path.write_text(json.dumps({**parts, "model": {**parts["model"], "vocab": no_mask}, "added_tokens": added}))
    refuse(saved_again, r"no piece \[MASK\]")
    bpe = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    path.write_text(json.dumps({"model": bpe, "pre_tokenizer": {"type": "ByteLevel"}}))
    refuse(saved_again, "has a byte-level BPE vocabulary, .*Unigram and WordPiece are read")
    for broken in ('{"model": 3}', "{", '{"model": {"type": "WordPiece", "vocab": {}}}'):
        path.write_text(broken)
        refuse(saved_again, r"tokenizer\.json")


def test_two_vocabularies_that_contradict_each_other_are_refused(wordpiece: Path, tiny_tokenizer_dir: Path) -> None:
    shutil.copyfile(tiny_tokenizer_dir / "spiece.model", wordpiece / "spiece.model")
    refuse(wordpiece, "holds two vocabularies")
    (wordpiece / "vocab.txt").unlink()
    shutil.copyfile(tiny_tokenizer_dir / "tokenizer.json", wordpiece / "tokenizer.json")
    assert Tokenizer.load(wordpiece).vocab_size
    parts = json.loads((wordpiece / "tokenizer.json").read_text(encoding="utf-8"))
    parts["model"]["vocab"][40][0] += "x"
    (wordpiece / "tokenizer.json").write_text(json.dumps(parts))
    refuse(wordpiece, "two vocabularies that contradict each other, spiece.model .* tokenizer.json")
