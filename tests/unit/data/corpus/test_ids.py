"""`prepare --ids`: streams of ids as they are, sentences from lists or marks, bad rows counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from litebert.cli import main, run
from litebert.common.errors import DataError
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.manifest import Manifest
from litebert.data.corpus.prepare import prepare
from litebert.data.corpus.shards import ShardSet
from litebert.text.tokenizer import Tokenizer

DOCUMENTS = [[[5, 6, 7], [8, 9]], [[10, 11]], [[12], [13], [5, 5]], [[20, 21, 22, 1]]]


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    run(["tokenizer", "numbers", "--size", "30", "--out", str(tmp_path / "numbers")])
    return tmp_path / "numbers"


def prepared(tmp_path: Path, numbers: Path, rows: Sequence[object], name: str, **more: object) -> Path:
    source, out = tmp_path / f"{name}.jsonl", tmp_path / name
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare(PrepareConfig((source,), numbers, out, ids=True, workers=1, dev_fraction=0.0, **more))  # type: ignore[arg-type]
    return out


def documents_of(folder: Path) -> list[list[list[int]]]:
    found = []
    for shard in ShardSet.open(folder, "train").shards:
        ends, tokens = shard.sentence_offsets.tolist(), shard.tokens.tolist()
        sentences = [tokens[a:b] for a, b in pairwise(ends)]
        cuts = shard.document_offsets.tolist()
        found += [sentences[a:b] for a, b in pairwise(cuts)]
    return found


def test_ids_stay_as_they_are_whichever_way_sentences_are_marked(tmp_path: Path, numbers: Path) -> None:
    nested = prepared(tmp_path, numbers, DOCUMENTS, "nested")
    assert documents_of(nested) == DOCUMENTS
    flat = [[-1, *(i for part in document for i in (*part, -1))][1:] for document in DOCUMENTS]
    marked = prepared(tmp_path, numbers, flat, "flat")
    assert documents_of(marked) == DOCUMENTS
    assert Manifest.read(nested).fingerprint("train") == Manifest.read(marked).fingerprint("train")


def test_a_vocabulary_of_numbers_reads_numbers(numbers: Path) -> None:
    tokenizer = Tokenizer.load(numbers)
    assert tokenizer.encode("7 29 30 x") == [7, 29, 1, 1]
    assert tokenizer.special_ids == (0, 1, 2, 3, 4)
    assert tokenizer.encode_masked("7 [MASK] 9") == [7, 4, 9]
    assert tokenizer.word_starts.all()


def test_bad_rows_are_counted_and_named(tmp_path: Path, numbers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad: list[object] = [[30], [-2, 5], [4], [5.0], [True], {"ids": [5]}, "5 6", [[5], 6], 7]
    out = prepared(tmp_path, numbers, [*DOCUMENTS, *bad], "some")
    assert documents_of(out) == DOCUMENTS
    assert Manifest.read(out).problems == {"broken_row": len(bad)}
    said = capsys.readouterr().err
    assert "some.jsonl:5: broken row ([30]: ids are 0 to 29, not special ones)" in said
    with pytest.raises(DataError, match=r"jsonl:1: broken row .*--strict"):
        prepared(tmp_path, numbers, [[30]], "strict", strict=True)


def test_text_is_not_ids(tmp_path: Path, numbers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("5 6 7")
    arguments = ["prepare", "--ids", "--input", str(tmp_path / "a.txt")]
    arguments += ["--tokenizer", str(numbers), "--out", str(tmp_path / "x")]
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "a.txt is not JSON lines" in capsys.readouterr().err.splitlines()[-1]
    for specials in (["1", "1", "2", "3", "4"], ["0", "1"], ["0", "1", "2", "3", "30"]):
        with pytest.raises(SystemExit) as stopped:
            main(["tokenizer", "numbers", "--size", "30", "--out", str(tmp_path / "y"),
                  "--specials", *specials])  # fmt: skip
        assert stopped.value.code == 2
        assert "give five different ids below 30" in capsys.readouterr().err
