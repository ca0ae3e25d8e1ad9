"""The tokenizer against the official one: every line through ours, all but a few through others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from litebert.common.files import open_binary
from litebert.text.normalize import Normalization
from litebert.text.sentences import split_sentences
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import Tokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer

COMMAND = "pytest tests/parity/test_tokenizer_parity.py"
Record = Callable[[str, float, str], None]

# A special token written out in the text: `tokenizer.json` takes it for the token itself.
KNOWN_EDGE_DIFFERENCES = {"[CLS] literal [MASK] text <unk> ▁ piece"}


@pytest.fixture(scope="module")
def official_dir(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the released SentencePiece model alone."""
    folder = tmp_path_factory.mktemp("official")
    model = shared / "fixtures" / "official" / "spiece.model"
    (folder / "spiece.model").write_bytes(model.read_bytes())
    return folder


@pytest.fixture(scope="module")
def official(official_dir: Path) -> SentencePieceTokenizer:
    loaded = Tokenizer.load(official_dir)
    assert isinstance(loaded, SentencePieceTokenizer)
    return loaded


def rows_of(shared: Path, name: str) -> list[dict[str, object]]:
    path = shared / "fixtures" / "official" / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def wiki_lines(shared: Path) -> Iterator[str]:
    with open_binary(shared / "data" / "corpus" / "wiki.txt.xz") as stream:
        for line in stream:
            if text := line.decode("utf-8").strip():
                yield text


@pytest.mark.parametrize("name", ["tokenization.jsonl", "tokenization_edge.jsonl"])
def test_every_line_as_the_official_tokenizer(
    official: SentencePieceTokenizer, shared: Path, name: str, record_exactness: Record
) -> None:
    rows = rows_of(shared, name)
    texts = [str(row["text"]) for row in rows]
    different = [
        text
        for text, row, ids in zip(texts, rows, official.encode_batch(texts), strict=True)
        if (
            official.normalize(text) != row["normalized"]
            or official.pieces(text) != row["pieces"]
            or ids != row["ids"]
            or official.encode_with_offsets(text).ids != ids
        )
    ]
    record_exactness(f"official tokenizer, {name}: lines that differ", len(different), COMMAND)
    assert not different


def test_ids_and_word_starts_of_the_released_model(official: SentencePieceTokenizer) -> None:
    t = official
    assert (t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id) == (0, 1, 2, 3, 4)
    assert t.vocab_size == 30000
    assert len(t.split_ids) == 141
    starts = {t.id_to_piece(index) for index in range(t.vocab_size) if t.word_starts[index]}
    assert {"▁the", "▁", "5", "18", "'", "=", "€", "£", "–", ",", ".", "<unk>"} <= starts
    assert starts.isdisjoint({"s", "ing", "a", "com", "://"})


def test_start_pieces_of_the_specification(tmp_path: Path) -> None:
    """The listed examples, as pieces of a vocabulary made for the purpose."""
    starts = ("5", "é", "д", "'", "'s", "=", "€", "£", "–", "▁s", "<x", ",", "~")
    continuations = ("...", "--", "s,", "ing", "X")
    (tmp_path / "text.txt").write_text("some words\n" * 50, encoding="utf-8")
    tokenizer = train_tokenizer(
        TokenizerTrainConfig(
            input=(tmp_path / "text.txt",),
            out=tmp_path / "tokenizer",
            vocab_size=100,
            shrink=True,
            symbols=starts + continuations,
        )
    )
    ids = {piece: tokenizer.processor.piece_to_id(piece) for piece in starts + continuations}
    assert tokenizer.unk_id not in ids.values()
    assert all(tokenizer.word_starts[ids[piece]] for piece in starts)
    assert not any(tokenizer.word_starts[ids[piece]] for piece in continuations)


def test_offsets_recover_every_squad_answer_that_ends_with_a_piece(
    official: SentencePieceTokenizer, shared: Path
) -> None:
    """Gold answers whose borders are piece borders come back character for character."""
    data = json.loads((shared / "data" / "squad" / "dev-v1.1.json").read_text(encoding="utf-8"))
    paragraphs = [p for article in data["data"][:6] for p in article["paragraphs"]]
    recovered = total = 0
    for paragraph in paragraphs:
        context = paragraph["context"]
        encoding = official.encode_with_offsets(context)
        spans = [(start, end) for start, end in zip(encoding.starts, encoding.ends, strict=True) if start < end]
        starts, ends = {start for start, _ in spans}, {end for _, end in spans}
        for question in paragraph["qas"]:
            answer = question["answers"][0]
            gold = answer["answer_start"], answer["answer_start"] + len(answer["text"])
            total += 1
            if gold[0] in starts and gold[1] in ends:
                inside = [span for span in spans if gold[0] <= span[0] and span[1] <= gold[1]]
                assert context[inside[0][0] : inside[-1][1]] == answer["text"]
                recovered += 1
    assert total > 500
    assert recovered > 0.97 * total


@pytest.mark.parametrize("name", ["tokenization.jsonl", "tokenization_edge.jsonl"])
def test_autotokenizer_on_the_released_model(
    official: SentencePieceTokenizer, shared: Path, tmp_path: Path, name: str, record_exactness: Record
) -> None:
    transformers = pytest.importorskip("transformers")
    official.save(tmp_path)
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path)
    rows = rows_of(shared, name)
    encoded = fast([row["text"] for row in rows], add_special_tokens=False)["input_ids"]
    different = {str(row["text"]) for row, ids in zip(rows, encoded, strict=True) if ids != row["ids"]}
    label = f"official tokenizer through tokenizer.json, {name}: lines that differ"
    record_exactness(label, len(different), COMMAND)
    if name == "tokenization.jsonl":
        assert len(different) <= len(rows) // 300
    else:
        assert different == KNOWN_EDGE_DIFFERENCES


def test_autotokenizer_on_a_trained_folder(shared: Path, tmp_path: Path, record_exactness: Record) -> None:
    """10,000 lines of Wikipedia through a vocabulary trained on other lines of it."""
    transformers = pytest.importorskip("transformers")
    lines = list(islice(wiki_lines(shared), 16_000))
    (tmp_path / "train.txt").write_text("\n".join(lines[10_000:]), encoding="utf-8")
    folder = tmp_path / "tokenizer"
    config = TokenizerTrainConfig(input=(tmp_path / "train.txt",), out=folder, vocab_size=8000)
    ours = train_tokenizer(config).encode_batch(lines[:10_000])
    fast = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=10**9)
    theirs = fast(lines[:10_000], add_special_tokens=False)["input_ids"]
    different = sum(a != b for a, b in zip(ours, theirs, strict=True))
    label = "our ids through AutoTokenizer, a trained folder, 10,000 Wikipedia lines: differ"
    record_exactness(label, different, COMMAND)
    assert different <= 10


def test_autotokenizer_adds_specials_and_segments(tiny_tokenizer: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    t = tiny_tokenizer
    t.save(tmp_path)
    # In a model folder the model's own class would take over if the settings did not say otherwise.
    (tmp_path / "config.json").write_text('{"model_type": "albert"}', encoding="utf-8")
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path)
    first, second = t.encode("The first one,"), t.encode("(and) a second.")
    encoded = fast("The first one,", "(and) a second.")
    assert encoded["input_ids"] == [t.cls_id, *first, t.sep_id, *second, t.sep_id]
    assert encoded["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert fast.model_max_length == 512
    specials = (fast.pad_token_id, fast.unk_token_id, fast.cls_token_id, fast.sep_token_id)
    assert (*specials, fast.mask_token_id) == (0, 1, 2, 3, 4)
    padded = fast(["one", "one two three"], padding=True)
    assert padded["attention_mask"][0][-1] == 0
    assert padded["input_ids"][0][-1] == t.pad_id


@pytest.mark.parametrize("rule", ["official", "keep-accents"])
def test_a_folder_that_transformers_saved_again(python_text: Path, tmp_path: Path, rule: Normalization) -> None:
    """It holds tokenizer.json alone, and is read with the same ids, offsets, words and specials."""
    transformers = pytest.importorskip("transformers")
    ours = train_tokenizer(TokenizerTrainConfig((python_text,), tmp_path / "ours", vocab_size=600, normalization=rule))
    transformers.AutoTokenizer.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "again")
    assert not (tmp_path / "again" / "spiece.model").exists()
    again = Tokenizer.load(tmp_path / "again")
    lines = python_text.read_text(encoding="utf-8").splitlines()[:300]
    assert again.encode_batch(lines) == ours.encode_batch(lines)
    assert [again.encode_with_offsets(line) for line in lines] == [ours.encode_with_offsets(line) for line in lines]
    assert again.special_ids == ours.special_ids
    assert again.word_rule == ours.word_rule
    assert (again.word_borders("unicode") == ours.word_borders("unicode")).all()


@pytest.mark.parametrize("lower", [True, False])
def test_a_wordpiece_folder_as_transformers_reads_it(tmp_path: Path, lower: bool) -> None:
    transformers = pytest.importorskip("transformers")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEéß한국我爱0123456789.,()-"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    pieces += ["the", "##ing", "한국", "##어", "cafe"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    settings = {"do_lower_case": lower, "strip_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    ours = Tokenizer.load(tmp_path)
    lines = ["The café (1998), 한국어 我爱 你", "Walking\u00a0THE  a-b ß", "x" * 120, "", " \t\u200b"]
    assert ours.encode_batch(lines) == theirs(lines, add_special_tokens=False)["input_ids"]
    ours.save(tmp_path / "saved")
    saved = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert saved(lines)["input_ids"] == theirs(lines)["input_ids"]
    pair = saved("the", "cafe")
    assert pair["token_type_ids"] == theirs("the", "cafe")["token_type_ids"]


@pytest.mark.slow
def test_words_alone_and_in_a_line_differ_only_in_ties(official: SentencePieceTokenizer, shared: Path) -> None:
    """Why lines are encoded whole, and no cache of words is used.

    No piece reaches across a space, so a word alone has the same best pieces as in its line, but
    for ties: SentencePiece sums float32 scores along the line, and rounding decides between
    `66`+`6` and `6`+`66`. The official ids are those of whole lines.
    """
    different = []
    for line in islice(wiki_lines(shared), 5_000):
        for sentence in split_sentences(line):
            whole = official.encode(sentence)
            words = [i for ids in official.encode_batch(sentence.split()) for i in ids]
            if whole != words:
                assert sorted(map(official.id_to_piece, whole)) == sorted(map(official.id_to_piece, words))
                different.append(sentence)
    assert len(different) < 10
