"""Laws of token shards: they are read back, damage is noticed, cuts depend on documents only."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.common.errors import DataError
from litebert.data.corpus import shards as shards_module
from litebert.data.corpus.manifest import MANIFEST
from litebert.data.corpus.shards import UNIGRAMS, ShardSet, cut_shards, seal_split, token_dtype, verify_shards
from small_shards import pack, write_documents

VOCAB_SIZE = 50
sentences = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=6)
corpora = st.lists(st.lists(sentences, min_size=1, max_size=4), max_size=12)
Corpus = list[list[list[int]]]


def read_back(shards: ShardSet) -> Corpus:
    corpus: Corpus = []
    for shard in shards.shards:
        tokens, starts = shard.tokens.tolist(), shard.sentence_offsets
        texts = [tokens[a:b] for a, b in pairwise(starts)]
        documents = shard.document_offsets
        corpus += [texts[a:b] for a, b in pairwise(documents)]
    return corpus


@settings(deadline=None)
@given(corpora, st.integers(1, 30))
def test_documents_are_read_back_for_any_shard_size(corpus: Corpus, shard_tokens: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shards = write_documents(folder, corpus, VOCAB_SIZE, shard_tokens=shard_tokens)
        shards.verify()
        assert read_back(shards) == corpus
        assert shards.num_documents == len(corpus)
        assert shards.num_sentences == sum(map(len, corpus))
        flat = [token for document in corpus for sentence in document for token in sentence]
        assert shards.num_tokens == len(flat)
        assert shards.unigram_counts().tolist() == np.bincount(np.array(flat, int), minlength=VOCAB_SIZE).tolist()
        # All shards but the last are full, and would not be without their last document.
        for shard in shards.shards[:-1]:
            last = shard.sentence_offsets[shard.document_offsets[-2]]
            assert last < shard_tokens <= shard.num_tokens


@settings(deadline=None)
@given(corpora, st.integers(1, 30), st.data())
def test_cuts_do_not_depend_on_how_documents_arrive(corpus: Corpus, shard_tokens: int, data: st.DataObject) -> None:
    def cut(groups: list[Corpus]) -> list[list[int]]:
        packed = (pack(group, VOCAB_SIZE) for group in groups)
        return [shard.tokens.tolist() for shard in cut_shards(packed, shard_tokens)]

    border = data.draw(st.integers(0, len(corpus)))
    assert cut([corpus]) == cut([corpus[:border], corpus[border:]]) == cut([[d] for d in corpus])


@settings(deadline=None)
@given(corpora, st.data())
def test_selection_keeps_exactly_the_chosen_documents(corpus: Corpus, data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(corpus), max_size=len(corpus)))
    chosen = pack(corpus, VOCAB_SIZE).select(np.array(keep, np.bool_))
    expected = pack([d for d, k in zip(corpus, keep, strict=True) if k], VOCAB_SIZE)
    assert chosen.tokens.tolist() == expected.tokens.tolist()
    assert chosen.sentence_lengths.tolist() == expected.sentence_lengths.tolist()
    assert chosen.document_lengths.tolist() == expected.document_lengths.tolist()


@pytest.mark.parametrize(("vocab_size", "name"), [(65_535, "uint16"), (65_536, "uint32")])
def test_tokens_take_two_bytes_while_they_fit(vocab_size: int, name: str, tmp_path: Path) -> None:
    assert token_dtype(vocab_size).name == name
    shards = write_documents(tmp_path, [[[vocab_size - 1, 0]]], vocab_size)
    assert shards.shards[0].tokens.dtype.name == name
    assert shards.shards[0].tokens.tolist() == [vocab_size - 1, 0]


def test_splits_are_apart_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    train = write_documents(tmp_path, [[[1, 2]]], VOCAB_SIZE)
    assert ShardSet.open(tmp_path, "dev").shards == ()
    assert ShardSet.open(tmp_path, "dev").unigram_counts().sum() == 0
    dev = write_documents(tmp_path, [[[3]]], VOCAB_SIZE, split="dev")
    assert read_back(ShardSet.open(tmp_path, "train")) == [[[1, 2]]]
    assert read_back(dev) == [[[3]]]
    assert ShardSet.open(tmp_path, "train").fingerprint == train.fingerprint != dev.fingerprint


def test_the_fingerprint_follows_the_content(tmp_path: Path) -> None:
    one = write_documents(tmp_path / "a", [[[1, 2], [3]]], VOCAB_SIZE).fingerprint
    same = write_documents(tmp_path / "b", [[[1, 2], [3]]], VOCAB_SIZE).fingerprint
    other_token = write_documents(tmp_path / "c", [[[1, 2], [4]]], VOCAB_SIZE).fingerprint
    other_cut = write_documents(tmp_path / "d", [[[1], [2, 3]]], VOCAB_SIZE).fingerprint
    assert one == same
    assert len({one, other_token, other_cut}) == 3


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_damage_is_noticed(tmp_path: Path, suffix: str) -> None:
    write_documents(tmp_path, [[[1, 2, 3]]], VOCAB_SIZE)
    path = tmp_path / "train" / f"00000{suffix}"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match="damaged"):
        ShardSet.open(tmp_path, "train").verify()
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match=f"{len(content) - 1} bytes instead of {len(content)}"):
        ShardSet.open(tmp_path, "train")
    path.unlink()
    with pytest.raises(DataError, match="is missing"):
        ShardSet.open(tmp_path, "train")


def test_a_folder_without_a_manifest_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        ShardSet.open(tmp_path / "nowhere", "train")
    with pytest.raises(DataError, match="unfinished build"):
        ShardSet.open(tmp_path, "train")
    (tmp_path / MANIFEST).write_text('{"format": "something else"}')
    with pytest.raises(DataError, match="is not a litebert-shards manifest"):
        ShardSet.open(tmp_path, "train")
    (tmp_path / MANIFEST).write_text('{"format": "litebert-shards", "version": 1, "colour": 3}')
    with pytest.raises(DataError, match="colour"):
        ShardSet.open(tmp_path, "train")


def test_shards_are_verified_all_or_a_seeded_tenth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [[[number % 90 + 5] * 8] for number in range(40)]
    shards = write_documents(tmp_path, documents, 100, shard_tokens=8)
    assert len(shards.shards) == 40
    read: list[int] = []
    verify = ShardSet.verify

    def noted(self: ShardSet, numbers: Iterable[int]) -> None:
        numbers = list(numbers)
        read.extend(numbers)
        verify(self, numbers)

    monkeypatch.setattr(ShardSet, "verify", noted)
    assert verify_shards([shards], seed=0) is None
    assert read == list(range(40))
    read.clear()
    for part in range(3):
        verify_shards([shards], seed=0, part=part, parts=3)
    assert sorted(read) == list(range(40))
    monkeypatch.setattr(shards_module, "READ_WHOLE_BYTES", 100)
    drawn = []
    for seed in (0, 0, 1):
        read.clear()
        note = verify_shards([shards], seed=seed)
        assert note is not None
        assert "4 of 40 shards" in note
        assert "--verify" in note
        drawn.append(tuple(read))
    assert drawn[0] == drawn[1] != drawn[2]
    read.clear()
    assert verify_shards([shards], seed=0, everything=True) is None
    assert read == list(range(40))


def test_tokens_and_offsets_that_a_wrong_manifest_vouches_for_are_refused(tmp_path: Path) -> None:
    shards = write_documents(tmp_path, [[[5, 6], [7]], [[8]]], 100)
    (shard,) = shards.shards
    tokens = np.fromfile(shard.bin_path, "<u2")
    for change, path, said in (
        (np.array([5, 6, 7, 100], "<u2"), shard.bin_path, "beyond 100 pieces"),
        (None, shard.idx_path, "not in order"),
    ):
        content = path.read_bytes()
        if change is not None:
            change.tofile(path)
        else:
            damaged = np.frombuffer(content[32:], "<u4").copy()
            damaged[1] = 4_000_000_000
            path.write_bytes(content[:32] + damaged.tobytes())
        seal_split(tmp_path, "train", 101)
        with pytest.raises(DataError, match="damaged"):
            ShardSet.open(tmp_path, "train").verify()
        with pytest.raises(DataError, match=said):
            shard.check_content(100)
        path.write_bytes(content)
    assert len(tokens) == 4


def test_counts_that_are_not_the_sums_of_the_shards_are_refused(tmp_path: Path) -> None:
    write_documents(tmp_path, [[[5, 6], [7]], [[8]]], 100)
    path = tmp_path / "manifest.json"
    values = json.loads(path.read_text())
    for key, value in {"tokens": 10**12, "documents": -1}.items():
        changed = json.loads(path.read_text())
        changed["splits"]["train"][key] = value
        path.write_text(json.dumps(changed))
        with pytest.raises(DataError, match=r"manifest\.json"):
            ShardSet.open(tmp_path, "train")
        path.write_text(json.dumps(values))
    ShardSet.open(tmp_path, "train")


def test_a_pipe_in_place_of_the_counts_is_not_opened(tmp_path: Path, tiny_shards_dir: Path) -> None:
    folder = Path(shutil.copytree(tiny_shards_dir, tmp_path / "shards"))
    counts = folder / "train" / UNIGRAMS
    counts.unlink()
    os.mkfifo(counts)
    with pytest.raises(DataError, match="missing or damaged"):
        ShardSet.open(folder, "train").unigram_counts()
