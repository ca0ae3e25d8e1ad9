"""The start of a new word table: copied, averaged or unknown rows, specials by role."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from litebert.data.batches.example import ExampleConfig, Vocabulary
from litebert.data.corpus.shards import ShardSet
from litebert.dist.replica import Replica
from litebert.dist.runtime import this_process
from litebert.interop.folder import load_config
from litebert.interop.hf import load_model
from litebert.model.head_table import Head
from litebert.model.heads import PretrainingModel
from litebert.text.extend import OldPieces, extend_tokenizer
from litebert.text.foreign import JsonTokenizer
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import Tokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer
from litebert.train.adapting.engine import mean_rows, old_rows, write_start
from litebert.train.pretraining.evaluate import DevSet, evaluate
from tiny_models import random_model_folder

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TABLE, BIAS = "encoder.embeddings.word.weight", "mlm.bias"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, python_text: Path) -> SentencePieceTokenizer:
    """Another vocabulary of the same text: many of its pieces are the tiny tokenizer's."""
    folder = tmp_path_factory.mktemp("other") / "tokenizer"
    return train_tokenizer(TokenizerTrainConfig((python_text,), folder, vocab_size=1500))


@pytest.fixture
def wordpiece(tmp_path: Path) -> JsonTokenizer:
    pieces = ["the", "of", *SPECIALS, "doc", "##string", "##s", "a", "##b", "##c", "我", "爱"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    assert isinstance(tokenizer, JsonTokenizer)
    return tokenizer


def test_the_same_vocabulary_is_the_same_table(tiny_tokenizer: Tokenizer) -> None:
    assert old_rows(tiny_tokenizer, tiny_tokenizer) == [[i] for i in range(1000)]


def test_wordpiece_is_its_own_start(wordpiece: JsonTokenizer) -> None:
    assert old_rows(wordpiece, wordpiece) == [[i] for i in range(wordpiece.vocab_size)]


def test_equal_pieces_are_copied_and_others_are_their_old_pieces(
    tiny_tokenizer: SentencePieceTokenizer, other: SentencePieceTokenizer
) -> None:
    rows = old_rows(other, tiny_tokenizer)
    ids = {tiny_tokenizer.id_to_piece(index): index for index in range(1000)}
    copied = averaged = 0
    for piece, found in enumerate(rows):
        name = other.id_to_piece(piece)
        if name in ids:
            assert found == [ids[name]], name
            copied += 1
        elif len(found) > 1:
            spelt = "".join(tiny_tokenizer.id_to_piece(index) for index in found)
            assert spelt.lstrip("▁") == name.lstrip("▁")
            # Inside a word it begins inside one, unless no such piece is there.
            first = tiny_tokenizer.spell(found[0])
            assert first[0] == other.spell(piece)[0] or first[1] not in ids
            averaged += 1
    assert copied > 500
    assert averaged > 300


def test_special_pieces_go_by_their_roles(tiny_tokenizer: SentencePieceTokenizer, wordpiece: JsonTokenizer) -> None:
    rows = old_rows(tiny_tokenizer, wordpiece)
    assert [rows[i] for i in tiny_tokenizer.special_ids] == [[2], [3], [4], [5], [6]]
    spelt = {tiny_tokenizer.id_to_piece(i): found for i, found in enumerate(rows)}
    assert spelt["▁the"] == [0]  # begins a word there too
    assert spelt["▁string"] == []  # no word of theirs begins so


def test_a_piece_inside_a_word_starts_from_pieces_inside_words(wordpiece: JsonTokenizer, tmp_path: Path) -> None:
    class One:
        """A vocabulary of one piece inside a word."""

        def spell(self, piece: int) -> tuple[bool, str]:
            return False, "bc"

        def id_to_piece(self, piece: int) -> str:
            return "bc"

    assert OldPieces(wordpiece).of(One(), 0) == [wordpiece.unk_id]  # type: ignore[arg-type]
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIALS, "b", "##b", "##c"]))
    old = Tokenizer.load(tmp_path)
    assert [old.id_to_piece(i) for i in OldPieces(old).of(One(), 0)] == ["##b", "##c"]  # type: ignore[arg-type]


def test_means_are_means() -> None:
    table = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    made = mean_rows(table, [[2], [0, 1, 5], []])
    assert torch.equal(made[0], table[2])
    assert torch.allclose(made[1], (table[0] + table[1] + table[5]) / 3, atol=1e-7)
    assert torch.allclose(made[2], table.mean(0), atol=1e-7)
    assert made.dtype == table.dtype


@pytest.mark.parametrize("head", ["pretraining", "masked_lm", "classification"])
def test_everything_but_the_table_stays(
    tmp_path: Path, tiny_tokenizer_dir: Path, other: SentencePieceTokenizer, head: Head
) -> None:
    source = random_model_folder(tmp_path / "old", head, tiny_tokenizer_dir)
    other.save(tmp_path / "tokenizer")
    write_start(source, tmp_path / "tokenizer", tmp_path / "start", seed=0)
    write_start(source, tiny_tokenizer_dir, tmp_path / "same", seed=0)
    old = load_model(source, "pretraining", new_head=True).state_dict()
    same = load_model(tmp_path / "same").state_dict()
    started = load_model(tmp_path / "start")
    new = started.state_dict()
    shape = load_config(source)
    assert started.config == replace(shape, vocab_size=1500)
    rows = old_rows(other, Tokenizer.load(source))
    assert torch.equal(new[TABLE], mean_rows(old[TABLE], rows))
    kept = [name for name in old if name.startswith("encoder.") and "pooler" not in name]
    kept += ["mlm.transform.weight", "mlm.bias"] if head != "classification" else []
    for name in kept:
        assert torch.equal(same[name], old[name]), name
        assert name in (TABLE, BIAS) or torch.equal(new[name], old[name]), name


def test_the_bias_is_fitted_to_the_text(tmp_path: Path, tiny_tokenizer_dir: Path, tiny_shards_dir: Path) -> None:
    source = random_model_folder(tmp_path / "old", "pretraining", tiny_tokenizer_dir)
    write_start(source, tiny_tokenizer_dir, tmp_path / "start", seed=0, shards=tiny_shards_dir)
    old, new = load_model(source), load_model(tmp_path / "start")
    assert isinstance(new, PretrainingModel)
    for name, weight in old.state_dict().items():
        assert torch.equal(weight, new.state_dict()[name]) == (name != BIAS), name
    counts = ShardSet.open(tiny_shards_dir, "train").unigram_counts()
    corpora = DevSet(
        [ShardSet.open(tiny_shards_dir, "train")], counts, ExampleConfig(length=64),
        Vocabulary.of(Tokenizer.load(tiny_tokenizer_dir)), 32,
    )  # fmt: skip
    losses = []
    for model in (old, new):
        with this_process("cpu", "none") as process:
            scores = evaluate(Replica(model, process), corpora, 64)
        losses.append((scores.masked_loss, scores.unigram_loss))
    assert losses[1][0] < losses[0][0]
    assert losses[1][0] < losses[1][1] + 0.3  # random weights: as good as the frequencies


def test_added_pieces_leave_old_ids_alone_and_are_used(
    tiny_tokenizer: SentencePieceTokenizer, other: SentencePieceTokenizer, tmp_path: Path
) -> None:
    tiny_tokenizer.save(tmp_path)
    (tmp_path / "spiece.model").unlink()
    for old in (tiny_tokenizer, Tokenizer.load(tmp_path)):  # SentencePiece, Unigram as JSON
        made = extend_tokenizer(old, other, 50)
        assert made.vocab_size == 1050
        assert old_rows(made, old)[:1000] == [[i] for i in range(1000)]
        for index in range(1000, 1050):
            is_marked, text = made.spell(index)
            assert len(old.encode(text)) > 1
            if is_marked:
                assert made.encode(text) == [index]
        assert extend_tokenizer(old, other, 10**6).vocab_size < 2500


def test_wordpiece_gets_more_pieces_too(wordpiece: JsonTokenizer, other: SentencePieceTokenizer) -> None:
    made = extend_tokenizer(wordpiece, other, 200)
    assert made.vocab_size == wordpiece.vocab_size + 200
    assert old_rows(made, wordpiece)[:15] == [[i] for i in range(15)]
    new = [made.spell(index) for index in range(wordpiece.vocab_size, made.vocab_size)]
    words = [(index + 15, text) for index, (marked, text) in enumerate(new) if marked]
    assert len(words) > 50
    assert [index for index, text in words if made.encode(text) == [index]]
