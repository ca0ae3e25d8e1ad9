"""Laws of preparation: one output for any workers, interruptions and formats; problems counted."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import lzma
import os
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from litebert.cli import run as run_command
from litebert.common.errors import ConfigError, DataError
from litebert.common.files import atomic_path as original_path
from litebert.data.corpus.assemble import find_duplicates
from litebert.data.corpus.build import BuildFolder
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.manifest import Manifest, Split
from litebert.data.corpus.parts import held_out_texts
from litebert.data.corpus.prepare import PrepareReport, prepare
from litebert.data.corpus.shards import ShardSet
from litebert.text.sentences import split_sentences
from litebert.text.tokenizer import Tokenizer
from packing import compressed

Prepare = Callable[..., PrepareReport]
StopAfter = Callable[..., None]


@pytest.fixture(scope="module")
def documents(python_text: Path) -> list[list[str]]:
    """Documents as paragraphs; every one is unique, none too long for the small blocks."""
    unique = dict.fromkeys(python_text.read_text(encoding="utf-8").strip().split("\n\n"))
    return [document.split("\n") for document in unique if len(document) < 10_000][:40]


@pytest.fixture
def run(tmp_path: Path, tiny_tokenizer_dir: Path) -> Prepare:
    """Prepares files of ``tmp_path`` with small blocks."""

    def function(*inputs: Path, out: str = "out", **settings: object) -> PrepareReport:
        config = PrepareConfig(
            input=inputs or (tmp_path / "corpus.txt",),
            tokenizer=tiny_tokenizer_dir,
            out=tmp_path / out,
            workers=1,
            part_bytes=6000,
            shard_tokens=5000,
        )
        return prepare(replace(config, **settings))  # type: ignore[arg-type]

    return function


def write_text(path: Path, documents: list[list[str]]) -> Path:
    path.write_text("\n\n".join("\n".join(document) for document in documents), encoding="utf-8")
    return path


def content(folder: Path) -> dict[str, str]:
    """Every file of a folder with its hash: equal dictionaries are equal bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def sentences_of(folder: Path, split: Split) -> list[list[list[int]]]:
    found: list[list[list[int]]] = []
    for shard in ShardSet.open(folder, split).shards:
        tokens, starts = shard.tokens.tolist(), shard.sentence_offsets
        sentences = [tokens[a:b] for a, b in pairwise(starts)]
        found += [sentences[a:b] for a, b in pairwise(shard.document_offsets)]
    return found


def test_shards_hold_the_tokens_of_every_sentence(
    run: Prepare, tmp_path: Path, documents: list[list[str]], tiny_tokenizer: Tokenizer
) -> None:
    write_text(tmp_path / "corpus.txt", documents)
    report = run(dev_fraction=0)
    expected = [
        [tiny_tokenizer.encode(s) for paragraph in document for s in split_sentences(paragraph)]
        for document in documents
    ]
    assert sentences_of(tmp_path / "out", "train") == expected
    assert len(ShardSet.open(tmp_path / "out", "train").shards) > 2
    train = ShardSet.open(tmp_path / "out", "train")
    train.verify()
    assert Tokenizer.load(train.tokenizer_folder).fingerprint == tiny_tokenizer.fingerprint
    assert report.manifest.tokenizer == tiny_tokenizer.fingerprint
    assert train.vocab_size == tiny_tokenizer.vocab_size
    flat = [token for document in expected for sentence in document for token in sentence]
    assert train.unigram_counts().tolist() == np.bincount(flat, minlength=1000).tolist()
    assert not (tmp_path / "out" / ".work").exists()
    assert report.manifest.sources.text_bytes == len((tmp_path / "corpus.txt").read_bytes()) - (
        len(documents) - 1
    ) * len("\n\n")


def test_two_worker_processes_write_the_same_bytes(run: Prepare, tmp_path: Path, documents: list[list[str]]) -> None:
    write_text(tmp_path / "corpus.txt", documents)
    run(out="one", workers=1, dev_fraction=0.2)
    run(out="two", workers=2, dev_fraction=0.2)
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.ray
def test_ray_writes_the_same_bytes(
    run: Prepare, tmp_path: Path, documents: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    write_text(tmp_path / "corpus.txt", documents)
    run(out="one", dev_fraction=0.2)
    run(out="ray", engine="ray", workers=2, dev_fraction=0.2)
    assert content(tmp_path / "one") == content(tmp_path / "ray")


def test_ray_is_asked_for_politely(
    run: Prepare, tmp_path: Path, documents: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    write_text(tmp_path / "corpus.txt", documents[:2])
    with pytest.raises(ConfigError, match=r"pip install 'litebert\[ray\]'"):
        run(engine="ray")


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("text", ""),
        ("text", ".zst"),
        ("sentences", ".gz"),
        ("files", ""),
        ("files", ".xz"),
        ("jsonl", ""),
        ("jsonl", ".zst"),
        ("parquet", ""),
        ("parquet", ".gz"),
    ],
)
def test_every_format_and_compression_gives_the_same_tokens(
    run: Prepare, tmp_path: Path, documents: list[list[str]], kind: str, suffix: str
) -> None:
    documents = documents[:8]
    run(write_text(tmp_path / "reference.txt", documents), out="reference", dev_fraction=0)
    folder = tmp_path / "corpus"
    folder.mkdir()
    if kind == "files":
        for index, document in enumerate(documents):
            data = "\n".join(document).encode()
            (folder / f"{index:02d}.txt{suffix}").write_bytes(compressed(data, suffix))
    else:
        texts = ["\n".join(document) for document in documents]
        plain = tmp_path / "plain"
        if kind == "text":
            write_text(plain, documents)
        elif kind == "sentences":
            split = [[s for p in document for s in split_sentences(p)] for document in documents]
            write_text(plain, split)
        elif kind == "jsonl":
            plain.write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
        else:
            pyarrow.parquet.write_table(pyarrow.table({"body": texts}), plain)
        ending = {"jsonl": ".jsonl", "parquet": ".parquet"}.get(kind, ".txt")
        (folder / f"a{ending}{suffix}").write_bytes(compressed(plain.read_bytes(), suffix))
    layout = {"sentences": "sentences", "files": "files"}.get(kind, "paragraphs")
    run(folder, layout=layout, column="body", dev_fraction=0)
    assert sentences_of(tmp_path / "out", "train") == sentences_of(tmp_path / "reference", "train")


def test_identical_documents_are_kept_once_in_their_first_place(
    run: Prepare, tmp_path: Path, documents: list[list[str]]
) -> None:
    repeated = [*documents, *documents[::-1], *documents[:3]]
    write_text(tmp_path / "corpus.txt", repeated)
    report = run(dev_fraction=0)
    run(write_text(tmp_path / "unique.txt", documents), out="unique", dev_fraction=0)
    assert sentences_of(tmp_path / "out", "train") == sentences_of(tmp_path / "unique", "train")
    assert report.manifest.sources.duplicate_documents == len(documents) + 3
    assert report.manifest.sources.documents == len(repeated)
    run(out="all", dedup=False, dev_fraction=0)
    assert ShardSet.open(tmp_path / "all", "train").num_documents == len(repeated)


@pytest.mark.parametrize("partition_records", [1, 7, 1000])
def test_duplicates_are_found_in_any_number_of_partitions(tmp_path: Path, partition_records: int) -> None:
    generator = np.random.default_rng(partition_records)
    hashes = generator.integers(0, 40, (300, 1)).astype(np.uint64) * np.array([[1, 3]], np.uint64)
    chunks = np.array_split(hashes, 7)
    found = find_duplicates(iter(chunks), 300, tmp_path / "spill", partition_records)
    seen: set[int] = set()
    expected = []
    for number, value in enumerate(hashes[:, 0].tolist()):
        if value in seen:
            expected.append(number)
        seen.add(value)
    assert sorted(np.concatenate(list(found)).tolist()) == expected
    assert not (tmp_path / "spill").exists()


def test_the_dev_split_is_a_share_of_documents_that_others_do_not_change(
    run: Prepare, tmp_path: Path, documents: list[list[str]]
) -> None:
    texts = [[f"Document number {i} of many."] for i in range(600)]
    write_text(tmp_path / "corpus.txt", texts)
    run(dev_fraction=0.25)
    train, dev = (sentences_of(tmp_path / "out", split) for split in ("train", "dev"))
    run(out="whole", dev_fraction=0)
    whole = sentences_of(tmp_path / "whole", "train")
    chosen = [document for document in whole if document in dev]
    assert chosen == dev, "the dev split keeps the order"
    assert [document for document in whole if document not in dev] == train
    assert 150 - 45 < len(dev) < 150 + 45  # more than four standard deviations
    write_text(tmp_path / "corpus.txt", documents[:3] + texts[300:])
    run(out="half", dev_fraction=0.25)
    half = sentences_of(tmp_path / "half", "dev")
    assert [d for d in dev if d in whole[300:]] == [d for d in half if d in whole[300:]]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_group_of_documents_goes_to_one_split(run: Prepare, tmp_path: Path, suffix: str) -> None:
    rows = [{"text": f"Page {i} of book {i % 40}.", "book": i % 40} for i in range(400)]
    if suffix == ".jsonl":
        lines = [json.dumps(row) for row in [*rows, {"text": "Of no book at all."}]]
        (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    else:
        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table, tmp_path / "corpus.parquet")
    settings = {"dev_fraction": 0.25, "dev_group": "book", "part_bytes": 1000}
    report = run(tmp_path / f"corpus{suffix}", **settings)
    texts = list(held_out_texts(tmp_path / "out"))
    books = Counter(text.split()[-1] for text in texts)
    assert 2 < len(books) < 20
    assert set(books.values()) == {10}, "all pages of a book or none"
    assert len(sentences_of(tmp_path / "out", "dev")) == len(texts)
    assert len(sentences_of(tmp_path / "out", "train")) == 400 - len(texts)
    assert report.manifest.problems == ({"missing_column": 1} if suffix == ".jsonl" else {})
    with pytest.raises(DataError, match="--dev-group was book and is now None"):
        run(tmp_path / f"corpus{suffix}", dev_fraction=0.25, part_bytes=1000)


def test_files_are_groups_by_their_content(run: Prepare, tmp_path: Path) -> None:
    for book in range(40):
        pages = [[f"Page {i} of book {book}."] for i in range(10)]
        write_text(tmp_path / f"{book}.txt", pages)
    run(tmp_path / "*.txt", dev_fraction=0.25, dev_group="file", layout="paragraphs")
    books = Counter(text.split()[-1] for text in held_out_texts(tmp_path / "out"))
    assert 2 < len(books) < 20
    assert set(books.values()) == {10}


def test_plain_text_has_no_column_to_group_by(run: Prepare, tmp_path: Path) -> None:
    write_text(tmp_path / "corpus.txt", [["A page."], ["Another one."]])
    with pytest.raises(DataError, match="has no columns: --dev-group book needs one; use file"):
        run(dev_group="book")
    with pytest.raises(ConfigError, match="ids have no columns"):
        run(dev_group="book", ids=True)
    with pytest.raises(ConfigError, match="--dev-group file needs a --dev-fraction above 0"):
        run(dev_group="file", dev_fraction=0.0)


def test_dev_input_is_all_dev_and_leaves_no_copy_in_train(
    run: Prepare, tmp_path: Path, documents: list[list[str]]
) -> None:
    write_text(tmp_path / "corpus.txt", documents)
    other = write_text(tmp_path / "dev.txt", [["Only here, in this file."], documents[4]])
    report = run(dev_input=(other,))
    dev = sentences_of(tmp_path / "out", "dev")
    train = sentences_of(tmp_path / "out", "train")
    assert len(dev) == 2
    assert len(train) == len(documents) - 1
    assert dev[1] not in train
    assert report.manifest.sources.duplicate_documents == 1


class Stop(Exception):
    """Ends a build in the middle."""


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> StopAfter:
    """Makes the n-th file of a build fail to be written."""

    def set_limit(limit: int, error: Exception | None = None) -> None:
        count = 0

        def atomic_path(path: Path | str) -> AbstractContextManager[Path]:
            nonlocal count
            count += 1
            if count > limit:
                raise error or Stop
            return original_path(path)

        for name in ("build", "shards"):
            monkeypatch.setattr(f"litebert.data.corpus.{name}.atomic_path", atomic_path)
        monkeypatch.setattr("litebert.common.files.atomic_path", atomic_path)

    return set_limit


def test_a_build_stopped_at_any_file_is_continued_to_the_same_bytes(
    run: Prepare, tmp_path: Path, documents: list[list[str]], stop_after: StopAfter, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [document for document in documents if len("".join(document)) < 2000][:8]
    write_text(tmp_path / "corpus.txt", [*documents, *documents[:2]])
    run = partial(run, dev_fraction=0.3, part_bytes=1000, shard_tokens=500)
    run(out="whole")
    expected = content(tmp_path / "whole")
    num_files = 0
    while True:
        with monkeypatch.context():
            stop_after(num_files)
            try:
                run()
                break
            except Stop:
                assert not (tmp_path / "out" / "manifest.json").exists()
        # As a killed process leaves it: an unfinished temporary file.
        (tmp_path / "out" / "train").mkdir(exist_ok=True)
        (tmp_path / "out" / "train" / ".00000.bin.x.tmp").write_bytes(b"half")
        monkeypatch.undo()
        report = run()
        assert content(tmp_path / "out") == expected
        if num_files == 8:
            assert report.resumed_parts > 0
        shutil.rmtree(tmp_path / "out")
        num_files += 1
    assert num_files > 15


def test_finished_shards_are_left_alone(run: Prepare, tmp_path: Path, documents: list[list[str]]) -> None:
    write_text(tmp_path / "corpus.txt", documents)
    assert not run().was_complete
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    assert run().was_complete
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


@pytest.mark.parametrize("is_finished", [False, True])
def test_changes_are_noticed(
    run: Prepare,
    tmp_path: Path,
    documents: list[list[str]],
    tiny_tokenizer_dir: Path,
    is_finished: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write_text(tmp_path / "corpus.txt", documents)
    if is_finished:
        run()
    else:
        monkeypatch.setattr("litebert.data.corpus.prepare.begin_assembly", _raise_stop)
        with pytest.raises(Stop):
            run()
        monkeypatch.undo()
    text = path.read_text(encoding="utf-8")
    status = path.stat()
    path.write_text(text.replace("a", "b", 1), encoding="utf-8")
    with pytest.raises(DataError, match=r"corpus\.txt changed; choose another --out"):
        run()
    path.write_text(text, encoding="utf-8")  # the same text with another time is the same source
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    with pytest.raises(DataError, match="dedup was True and is now False"):
        run(dedup=False)
    with pytest.raises(DataError, match=r"other source files \(1 then, 2 now\)"):
        run(path, write_text(tmp_path / "b.txt", documents[:1]))
    cased = tmp_path / "cased"
    shutil.copytree(tiny_tokenizer_dir, cased)
    settings = json.loads((cased / "tokenizer_config.json").read_text())
    (cased / "tokenizer_config.json").write_text(json.dumps({**settings, "do_lower_case": False}))
    with pytest.raises(DataError, match="tokenizer changed"):
        run(tokenizer=cased)
    report = run()
    assert report.was_complete == is_finished
    assert run(dedup=False, restart=True).manifest.settings["dedup"] == "False"


def test_a_restart_that_was_killed_leaves_nothing_of_the_old_build(
    run: Prepare, tmp_path: Path, documents: list[list[str]]
) -> None:
    write_text(tmp_path / "corpus.txt", documents)
    run()
    run(out="new", shard_tokens=2000, dev_fraction=0.3)
    (tmp_path / "out" / ".work").mkdir()
    (tmp_path / "out" / "manifest.json").unlink()
    run(shard_tokens=2000, dev_fraction=0.3)
    assert content(tmp_path / "out") == content(tmp_path / "new")


def _raise_stop(*_: object) -> None:
    raise Stop


def test_foreign_folders_and_second_writers_are_refused(
    run: Prepare, tmp_path: Path, documents: list[list[str]]
) -> None:
    write_text(tmp_path / "corpus.txt", documents[:2])
    (tmp_path / "out" / "train").mkdir(parents=True)
    (tmp_path / "out" / "train" / "thesis.txt").write_text("mine")
    (tmp_path / "out" / "manifest.json").write_text("{}")  # of something else
    with pytest.raises(DataError, match=r"not of such a folder: manifest\.json, train/"):
        run()
    with pytest.raises(DataError, match=r"not of such a folder: manifest\.json, train/"):
        run(restart=True)
    assert content(tmp_path / "out").keys() == {"train/thesis.txt", "manifest.json"}
    with BuildFolder.open(tmp_path / "busy"), pytest.raises(DataError, match="another litebert process is writing"):
        run(out="busy")
    with pytest.raises(DataError, match=r"nowhere\.txt does not exist"):
        run(tmp_path / "nowhere.txt", out="new")
    assert not (tmp_path / "new").exists()


@pytest.fixture
def broken_inputs(tmp_path: Path) -> dict[str, Path]:
    """Files with one problem each, by the kind of problem and the line it is reported at."""
    contents = {
        "empty_file:0": ("empty.txt", b""),
        "binary_file:0": ("program.txt", b"\x7fELF\0\0"),
        "binary_line:3": ("nul.txt", b"A first line.\n" + b"y" * 70_000 + b"\nwith \0 inside\nEnd."),
        "broken_utf8:2": ("latin1.txt", "A good line.\nA caf\xe9.\nGood.".encode("latin-1")),
        "broken_json:2": ("syntax.jsonl", b'{"text": "Good one."}\n{"text": \n'),
        "missing_column:1": ("column.jsonl", b'{"body": "No text."}\n{"text": "Good two."}\n'),
        "overlong_line:1": ("long.txt", b"z" * (4 * 6000 + 1) + b"\nA short line."),
        "unreadable_file:1": ("cut.txt.gz", gzip.compress(b"Some text. " * 99)[:-20]),
    }
    folder = tmp_path / "broken"
    folder.mkdir()
    for name, data in contents.values():
        (folder / name).write_bytes(data)
    pyarrow.parquet.write_table(pyarrow.table({"body": ["x"]}), folder / "column.parquet")
    paths = {kind: folder / name for kind, (name, _) in contents.items()}
    return {**paths, "missing_column:0": folder / "column.parquet"}


def test_problems_are_counted_by_file_and_line(
    run: Prepare,
    tmp_path: Path,
    broken_inputs: dict[str, Path],
    documents: list[list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_text(tmp_path / "corpus.txt", documents[:3])
    report = run(tmp_path / "corpus.txt", tmp_path / "broken", layout="paragraphs", dev_fraction=0)
    counts: dict[str, int] = {}
    for kind in broken_inputs:
        counts[kind.split(":")[0]] = counts.get(kind.split(":")[0], 0) + 1
    # A line of 70,000 bytes is more than four of the test's small blocks, too.
    counts["overlong_line"] += 1
    assert {k: report.manifest.problems.get(k) for k in counts} == counts
    listed = [json.loads(line) for line in (tmp_path / "out" / "problems.jsonl").read_text().splitlines()]
    places = {(f"{row['kind']}:{row['line']}", row["path"]) for row in listed}
    assert places >= {(kind, str(path)) for kind, path in broken_inputs.items()}
    assert f"{broken_inputs['broken_utf8:2']}:2: broken utf8" in capsys.readouterr().err
    # What is good in them is kept: one document of two lines, and each good JSON line.
    assert report.manifest.splits["train"].documents == 3 + 6


@pytest.mark.parametrize("workers", [1, 2])
def test_strict_stops_at_a_problem(run: Prepare, tmp_path: Path, broken_inputs: dict[str, Path], workers: int) -> None:
    path = broken_inputs["broken_utf8:2"]
    with pytest.raises(DataError, match=r"latin1\.txt:2: broken utf8 .*fix it, or run without"):
        run(path, layout="paragraphs", strict=True, workers=workers)
    assert not (tmp_path / "out" / "manifest.json").exists()
    path.write_text("A good line.\nA café.\nGood.", encoding="utf-8")
    assert run(path, layout="paragraphs", strict=True).manifest.problems == {}


def test_input_without_text_is_an_error(run: Prepare, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(" \n\n \n")
    with pytest.raises(DataError, match="nothing to train on in 1 files"):
        run()
    (tmp_path / "corpus.txt").write_text("")
    with pytest.raises(DataError, match="1 empty file"):
        run(out="b")


def test_a_hundred_megabyte_line_takes_no_memory(run: Prepare, tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    path = tmp_path / "corpus.txt"
    with path.open("wb") as stream:
        stream.write(b"The first document.\n\nBefore.\n")
        for _ in range(100):
            stream.write(b"x" * (1 << 20))
        stream.write(b"\nAfter.\n\nThe last document.\n")
    config = PrepareConfig((path,), tiny_tokenizer_dir, tmp_path / "out", "paragraphs", workers=1, dev_fraction=0)
    report = prepare(config)
    assert report.manifest.problems == {"document_cut": 1, "overlong_line": 1}
    assert report.manifest.splits["train"].documents == 4
    assert report.manifest.sources.text_bytes < 100


def test_a_full_disk_is_one_line_and_loses_nothing(
    run: Prepare, tmp_path: Path, documents: list[list[str]], stop_after: StopAfter, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "corpus.txt", documents)
    run(out="whole")
    with monkeypatch.context():
        stop_after(6, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(DataError, match=r"no space left on the disk of .*finished parts are kept"):
            run()
    monkeypatch.undo()
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert run().resumed_parts > 0
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_a_worker_that_dies_is_an_error_with_a_remedy(
    run: Prepare, tmp_path: Path, documents: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "corpus.txt", documents)
    monkeypatch.setattr("litebert.data.corpus.engines.build_part", _die)
    with pytest.raises(DataError, match=r"a worker process died.*fewer --workers than 2"):
        run(workers=2)


def _die(*_: object) -> bytes:
    os._exit(9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dev_fraction": 1.0}, "dev_fraction is 1.0"),
        ({"workers": 0}, "workers is 0"),
        ({"shard_tokens": 0}, "shard_tokens 0"),
        ({"part_bytes": 0}, "part_bytes is 0"),
        ({"input": ()}, "no input"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], message: str) -> None:
    config = PrepareConfig((Path("a"),), Path("t"), Path("o"))
    with pytest.raises(ConfigError, match=message):
        replace(config, **changes)  # type: ignore[arg-type]


def test_the_manifest_holds_no_trace_of_place_or_time(run: Prepare, tmp_path: Path, documents: list[list[str]]) -> None:
    write_text(tmp_path / "corpus.txt", documents[:5])
    run(out="a")
    run(out="b")
    assert Manifest.read(tmp_path / "a") == Manifest.read(tmp_path / "b")


def test_the_command_prints_what_it_made(
    tmp_path: Path, documents: list[list[str]], tiny_tokenizer_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_text(tmp_path / "corpus.txt", [*documents[:4], documents[0]])
    arguments = ["prepare", "--input", str(text), "--tokenizer", str(tiny_tokenizer_dir)]
    arguments += ["--out", str(tmp_path / "out"), "--workers", "1", "--dev-fraction", "0"]
    run_command([*arguments, "--json"])
    answer = json.loads(capsys.readouterr().out)
    train = ShardSet.open(tmp_path / "out", "train")
    assert answer["train"] == {"documents": 4, "sentences": train.num_sentences, "tokens": train.num_tokens}
    assert answer["duplicate_documents"] == 1
    assert not answer["was_complete"]
    run_command(arguments)
    printed = capsys.readouterr().out
    assert f"{train.num_tokens:,}" in printed
    assert "1 duplicate" in printed
    assert "nothing to do" in printed
    assert "the dev split is empty" in printed


def test_a_byte_of_real_text_takes_at_most_0_6_byte(run: Prepare, tmp_path: Path, shared: Path) -> None:
    with lzma.open(shared / "data/corpus/wiki.txt.xz") as stream:
        (tmp_path / "corpus.txt").write_bytes(stream.read(2_000_000))
    report = run(tokenizer=shared / "fixtures/official", part_bytes=1 << 20, shard_tokens=1 << 24)
    files = [*(tmp_path / "out").rglob("*.bin"), *(tmp_path / "out").rglob("*.idx")]
    num_bytes = sum(path.stat().st_size for path in files)
    assert 0.4 < num_bytes / report.manifest.sources.text_bytes < 0.6


def test_passages_of_squad_and_race_equal_their_plain_text(
    run: Prepare, tmp_path: Path, documents: list[list[str]]
) -> None:
    """An article of SQuAD is a document, its passages paragraphs; so is a passage of RACE."""
    plain = tmp_path / "plain.txt"
    plain.write_text("\n\n".join("\n".join(document) for document in documents))
    squad, race = tmp_path / "dev.json", tmp_path / "dev.jsonl.xz"
    articles = [
        {"title": str(n), "paragraphs": [{"context": text, "qas": []} for text in document]}
        for n, document in enumerate(documents)
    ]
    squad.write_text(json.dumps({"version": "1.1", "data": articles}))
    lines = [
        json.dumps({"article": "\n".join(document), "questions": ["?"], "text": None, "id": str(n)})
        for n, document in enumerate(documents)
    ]
    race.write_bytes(lzma.compress("\n".join(lines).encode()))
    settings = {"dev_fraction": 0.2}
    run(plain, out="plain", layout="paragraphs", **settings)
    run(squad, out="squad", **settings)
    run(race, out="race", **settings)
    for split in ("train", "dev"):
        tokens = [
            np.concatenate([shard.tokens for shard in ShardSet.open(tmp_path / name, split).shards])
            for name in ("plain", "squad", "race")
        ]
        assert all(np.array_equal(tokens[0], other) for other in tokens[1:])


def test_a_broken_squad_file_is_reported(run: Prepare, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"data": [{"paragraphs": [{"text": "no context"}]}]}')
    (tmp_path / "good.txt").write_text("One sentence.\n\nAnother one.\n")
    report = run(tmp_path / "bad.json", tmp_path / "good.txt")
    assert report.manifest.problems["broken_json"] == 1


@pytest.mark.parametrize(("asked", "split_as"), [("", "de"), ("en", "en")])
def test_sentences_are_split_as_the_tokenizers_language_has_it(
    asked: str, split_as: str, tmp_path: Path, tiny_tokenizer_dir: Path
) -> None:
    text = "Am 3. Mai kam der Brief. Er war lang."
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "de.txt").write_text(text)
    tokenizer = Tokenizer.load(tiny_tokenizer_dir)
    tokenizer.settings = replace(tokenizer.settings, language="de")
    (tmp_path / "tokenizer").mkdir()
    tokenizer.save(tmp_path / "tokenizer")
    config = PrepareConfig(
        input=(tmp_path / "texts",),
        tokenizer=tmp_path / "tokenizer",
        out=tmp_path / "out",
        layout="files",
        language=asked,
        dev_fraction=0.0,
        workers=1,
        allow_unknown=True,
    )
    manifest = prepare(config).manifest
    assert manifest.settings["language"] == split_as
    assert manifest.split("train").sentences == len(split_sentences(text, split_as))
