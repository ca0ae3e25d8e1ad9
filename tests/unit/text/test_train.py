"""Training a vocabulary: the same bytes from any file, nothing lost in silence."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import re
from pathlib import Path

import pytest

from litebert.common.errors import ConfigError, DataError
from litebert.text.corpus import find_files
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import Tokenizer
from litebert.text.train import MAX_SENTENCE_CHARACTERS, TokenizerTrainConfig, train_tokenizer

WORDS = ["In", "The", "value", "type", "calls", "returned", "list", "of", "a", "people", "1990,"]
WORDS += [f"{number}," for number in range(20)] + ["5,000", "1995,", "test."]
_draw = random.Random(1)
LINES = [" ".join(_draw.choices(WORDS, k=12)) for _ in range(300)]


def write(path: Path, lines: list[str]) -> Path:
    data = ("\n".join(lines) + "\n").encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".xz":
        data = lzma.compress(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def train(out: Path, *inputs: Path, vocab_size: int = 70, **settings: object) -> SentencePieceTokenizer:
    config = TokenizerTrainConfig(input=inputs, out=out, vocab_size=vocab_size, **settings)  # type: ignore[arg-type]
    return train_tokenizer(config)


def test_the_same_text_gives_the_same_bytes(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", LINES)
    for out in ("one", "two"):
        train(tmp_path / out, text, vocab_size=60, max_sentences=101)
    for name in ("spiece.model", "tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_every_kind_of_input_gives_the_same_vocabulary(tmp_path: Path) -> None:
    half = len(LINES) // 2
    plain = train(tmp_path / "a", write(tmp_path / "text.txt", LINES))
    write(tmp_path / "folder" / "1.txt.gz", LINES[:half])
    write(tmp_path / "folder" / "sub" / "2.txt.xz", LINES[half:])
    write(tmp_path / "folder" / ".hidden", ["not to be read"] * 100)
    rows = [json.dumps({"text": f"{a}\n{b}"}) for a, b in zip(LINES[::2], LINES[1::2], strict=True)]
    rows_file = write(tmp_path / "rows" / "r.jsonl", rows)
    assert train(tmp_path / "b", tmp_path / "folder").model == plain.model
    assert train(tmp_path / "c", rows_file).model == plain.model
    assert train(tmp_path / "d", tmp_path / "rows" / "*.jsonl").model == plain.model


def test_pieces_that_the_digit_comma_rule_would_split_are_not_learnt(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", LINES)
    kept = train(tmp_path / "off", text, digit_comma="off")
    pieces = [kept.id_to_piece(index) for index in range(kept.vocab_size)]
    assert any(re.search(r"\d,$", piece) for piece in pieces)
    for rule in ("official", "intended"):
        clean = train(tmp_path / rule, text, digit_comma=rule)
        assert not clean.split_ids
        assert clean.processor.encode("in 1990, or 5,000") == clean.encode("in 1990, or 5,000")


def test_long_lines_are_cut_between_words_not_skipped(tmp_path: Path) -> None:
    long = " ".join(["zyzzyva"] * 5 * MAX_SENTENCE_CHARACTERS)
    tokenizer = train(tmp_path / "tok", write(tmp_path / "text.txt", [*LINES, long]))
    assert tokenizer.pieces("zyzzyva") == ["▁zyzzyva"]
    unbroken = "q" * (20 * MAX_SENTENCE_CHARACTERS)
    tokenizer = train(tmp_path / "tok2", write(tmp_path / "text2.txt", [*LINES, unbroken]))
    assert tokenizer.unk_id not in tokenizer.encode("q")


def test_case_is_kept_only_when_asked(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", LINES)
    cased = train(tmp_path / "cased", text, cased=True)
    assert cased.unk_id not in cased.encode("In")
    assert Tokenizer.load(tmp_path / "cased").settings.lower is False
    assert Tokenizer.load(tmp_path / "cased").encode("In") == cased.encode("In")
    lower = train(tmp_path / "lower", text)
    assert cased.encode("in") != cased.encode("In")
    assert lower.encode("THE") == lower.encode("the")


def test_broken_lines_are_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clean = train(tmp_path / "clean", write(tmp_path / "clean.txt", LINES))
    data = "\n".join(LINES[:2]).encode() + b"\n\xff\xfe broken\nbin\0ary\n"
    (tmp_path / "text.txt").write_bytes(data + "\n".join(LINES[2:]).encode())
    tokenizer = train(tmp_path / "tok", tmp_path / "text.txt")
    error = capsys.readouterr().err
    assert "left out 2 lines" in error
    assert "text.txt:3" in error
    assert tokenizer.model == clean.model


def test_too_little_text_says_how_many_pieces_fit(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", LINES)
    with pytest.raises(DataError, match=r"set --vocab-size (\d+) or less") as caught:
        train(tmp_path / "tok", text, vocab_size=5000)
    assert not (tmp_path / "tok").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt"}, "something was left behind"
    fitting = int(re.findall(r"--vocab-size (\d+)", str(caught.value))[0])
    assert train(tmp_path / "fits", text, vocab_size=fitting).vocab_size == fitting
    shrunk = train(tmp_path / "shrunk", text, vocab_size=5000, shrink=True)
    assert 50 < shrunk.vocab_size < 5000


def test_errors_name_the_remedy(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", LINES)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="nowhere does not exist"):
        train(tmp_path / "tok", tmp_path / "nowhere")
    with pytest.raises(DataError, match="matches no file"):
        train(tmp_path / "tok", tmp_path / "empty")
    with pytest.raises(DataError, match="no text in"):
        train(tmp_path / "tok", write(tmp_path / "blank.txt", ["", "  "]))
    with pytest.raises(ConfigError, match="set at least"):
        train(tmp_path / "tok", text, vocab_size=15)
    with pytest.raises(ConfigError, match="too small; 14 are reserved"):
        train(tmp_path / "tok", text, vocab_size=10)
    with pytest.raises(ConfigError, match="max_sentences 9 is too small"):
        train(tmp_path / "tok", text, max_sentences=9)
    with pytest.raises(ConfigError, match=r"character_coverage 2\.0 is out of range"):
        train(tmp_path / "tok", text, character_coverage=2.0)
    rows = write(tmp_path / "rows.jsonl", [json.dumps({"text": "x"})])
    with pytest.raises(DataError, match="no column 'body'; it has text"):
        train(tmp_path / "tok", rows, column="body")
    (tmp_path / "broken.txt.gz").write_bytes(gzip.compress(b"text " * 1000)[:-20])
    with pytest.raises(DataError, match=r"broken\.txt\.gz cannot be read"):
        train(tmp_path / "tok", tmp_path / "broken.txt.gz")
    with pytest.raises(DataError, match="exists and is not empty"):
        train(tmp_path, text)
    assert not (tmp_path / "tok").exists()


def test_files_are_found_once_and_in_order(tmp_path: Path) -> None:
    files = [write(tmp_path / name, ["x"]) for name in ("a.txt", "b/c.txt", "b/d.txt")]
    assert find_files([tmp_path, files[1]]) == files
    assert find_files([files[2], tmp_path / "b" / "*"]) == [files[2], files[1]]


@pytest.mark.parametrize(
    ("given", "rule", "said"),
    [
        ({}, "official", "no --language given"),
        ({"language": "en-GB"}, "official", "language en-GB: as in ALBERT"),
        ({"language": "de"}, "keep-accents", "letters keep their accents"),
        ({"language": "tr"}, "keep-accents", "tells i from ı"),
        ({"language": "de", "normalization": "none"}, "none", "as asked"),
    ],
)
def test_the_normalisation_follows_the_language(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, str], rule: str, said: str
) -> None:
    text = write(tmp_path / "text.txt", [f"{line} Größe" for line in LINES])
    tokenizer = train(tmp_path / "tok", text, vocab_size=100, shrink=True, **given)
    assert tokenizer.settings.normalization == rule
    assert Tokenizer.load(tmp_path / "tok").settings == tokenizer.settings
    error = capsys.readouterr().err
    assert f"normalization {rule}" in error
    assert said in error
    # Only who has chosen nothing is told what is lost.
    assert ("of the lines lose accents" in error) == (rule == "official")
    assert tokenizer.settings.lower == (rule != "none")


def test_a_language_is_a_code(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="language 'deutsch!' is not an ISO 639 code"):
        TokenizerTrainConfig(input=(tmp_path,), out=tmp_path, language="deutsch!")
