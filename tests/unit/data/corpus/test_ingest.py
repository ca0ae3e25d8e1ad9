"""Laws of ingestion: nothing lost, cuts between documents, going on anywhere, problems named."""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import tempfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.data.corpus.ingest import LARGEST, Problem, RawPart, read_raw_parts
from litebert.data.corpus.layouts import TextLayout, detect_layout, paragraphs_of
from litebert.data.corpus.sources import Format, Source
from packing import compressed

LOREM = "The quick brown fox jumps over the lazy dog near the river."


def source(path: Path, format: Format = "text", layout: TextLayout | None = "paragraphs") -> Source:
    return Source(str(path), format, layout, "train", path.stat().st_size, "")


def problems_of(raw_parts: list[RawPart]) -> list[Problem]:
    return [problem for raw in raw_parts for excerpt in raw.excerpts for problem in excerpt.problems]


def text_of(raw_parts: list[RawPart]) -> bytes:
    excerpts = [excerpt.data for raw in raw_parts for excerpt in raw.excerpts]
    return b"".join(data for data in excerpts if isinstance(data, bytes))


documents = st.lists(
    st.lists(st.text("ab é", min_size=1, max_size=20).filter(str.strip), min_size=1, max_size=4),
    min_size=1,
    max_size=30,
)
separators = st.sampled_from(["\n\n", "\n\n\n", "\n \n", "\r\n\r\n"])


@settings(max_examples=60, deadline=None)
@given(st.lists(documents, min_size=1, max_size=3), separators, st.integers(16, 400))
def test_chunks_hold_everything_once_and_can_be_taken_up_anywhere(
    files: list[list[list[str]]], separator: str, part_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for index, docs in enumerate(files):
            path = Path(folder, f"{index}.txt")
            path.write_text(separator.join("\n".join(d) for d in docs), encoding="utf-8", newline="")
            sources.append(source(path))
        raw_parts = list(read_raw_parts(sources, part_bytes=part_bytes))
        whole = b"".join(Path(s.path).read_bytes() for s in sources)
        assert text_of(raw_parts) == whole
        assert [raw.index for raw in raw_parts] == list(range(len(raw_parts)))
        assert all(raw.num_bytes <= 2 * LARGEST * part_bytes for raw in raw_parts)
        for k, raw in enumerate(raw_parts):
            rest = list(read_raw_parts(sources, "text", k + 1, raw.end, part_bytes))
            assert rest == raw_parts[k + 1 :]


@settings(max_examples=60, deadline=None)
@given(documents, separators, st.integers(80, 400))
def test_parts_end_between_documents(docs: list[list[str]], separator: str, part_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        path.write_text(separator.join("\n".join(d) for d in docs), encoding="utf-8", newline="")
        raw_parts = list(read_raw_parts([source(path)], part_bytes=part_bytes))
        lines = path.read_bytes().split(b"\n")
        for raw in raw_parts[:-1]:
            if not problems_of([raw]):
                assert not lines[raw.end.line - 2].strip(), "the line before a cut is blank"


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_compression_changes_nothing(tmp_path: Path, suffix: str) -> None:
    text = "\n\n".join(f"Document {i}.\n{LOREM * (i % 5)}" for i in range(300)).encode()
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(compressed(text, suffix))
    raw_parts = list(read_raw_parts([source(path)], part_bytes=4096))
    assert len(raw_parts) > 5
    assert text_of(raw_parts) == text
    for k, raw in enumerate(raw_parts):
        rest = list(read_raw_parts([source(path)], "text", k + 1, raw.end, 4096))
        assert rest == raw_parts[k + 1 :]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_truncated_file_is_reported_and_its_beginning_kept(tmp_path: Path, suffix: str) -> None:
    text = "\n\n".join(f"Document {i * 7919}. {LOREM}" for i in range(3000)).encode()
    path = tmp_path / f"a.txt{suffix}"
    packed = compressed(text, suffix)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    raw_parts = list(read_raw_parts([source(path)], part_bytes=4096))
    assert [problem.kind for problem in problems_of(raw_parts)] == ["unreadable_file"]
    assert text.startswith(text_of(raw_parts))


def test_a_line_longer_than_memory_allows_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    lines = ["one", "two", "x" * 10_000, "three", "", "four"]
    path.write_text("\n".join(lines))
    raw_parts = list(read_raw_parts([source(path)], part_bytes=100))
    cut, problem = problems_of(raw_parts)
    assert (cut.kind, cut.line) == ("document_cut", 1)  # its lines were not known to be few
    assert (problem.kind, problem.line) == ("overlong_line", 3)
    assert "10,001 bytes" in problem.detail
    assert text_of(raw_parts).split() == [b"one", b"two", b"three", b"four"]
    assert max(raw.num_bytes for raw in raw_parts) <= 2 * LARGEST * 100


def test_what_was_read_beyond_a_skipped_line_moves_no_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    documents = "\n\n".join(f"Document {i}.\n{LOREM * (i % 5)}" for i in range(100))
    path.write_text(f"{'x' * 10_000}\n{'y' * 500}\n{documents}")
    raw_parts = list(read_raw_parts([source(path)], part_bytes=100))
    assert len(raw_parts) > 20
    for k, raw in enumerate(raw_parts):
        assert list(read_raw_parts([source(path)], "text", k + 1, raw.end, 100)) == raw_parts[k + 1 :]


def test_a_document_longer_than_memory_allows_is_cut_at_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    text = "".join(f"line {i}\n" for i in range(500)).encode()
    path.write_bytes(text)
    raw_parts = list(read_raw_parts([source(path)], part_bytes=200))
    assert text_of(raw_parts) == text
    assert {problem.kind for problem in problems_of(raw_parts)} == {"document_cut"}
    for raw in raw_parts:
        assert text_of([raw]).endswith(b"\n")


def test_binary_and_empty_files_are_named_and_left_out(tmp_path: Path) -> None:
    names = ["a.txt", "b.txt", "c.txt", "d.txt.gz"]
    contents = [b"text\n", b"\x7fELF\0\0\0", b"", gzip.compress(b"")]
    for name, content in zip(names, contents, strict=True):
        (tmp_path / name).write_bytes(content)
    sources = [source(tmp_path / name) for name in names]
    raw_parts = list(read_raw_parts(sources))
    assert text_of(raw_parts) == b"text\n"
    found = [(problem.kind, Path(problem.path).name) for problem in problems_of(raw_parts)]
    assert found == [("binary_file", "b.txt"), ("empty_file", "c.txt"), ("empty_file", "d.txt.gz")]
    # Going on after such a file does not report it again.
    small = list(read_raw_parts(sources, part_bytes=1))
    for k, raw in enumerate(small):
        assert list(read_raw_parts(sources, "text", k + 1, raw.end, 1)) == small[k + 1 :]


def test_json_lines_are_cut_between_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": LOREM * (i % 4)}) + "\n" for i in range(50)))
    raw_parts = list(read_raw_parts([source(path, "jsonl", None)], part_bytes=500))
    assert text_of(raw_parts) == path.read_bytes()
    assert len(raw_parts) > 5
    assert all(text_of([raw]).endswith(b"}\n") for raw in raw_parts)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_parquet_rows_come_once_and_can_be_taken_up_anywhere(tmp_path: Path, suffix: str) -> None:
    texts = [f"{i} {LOREM * (i % 3)}" for i in range(200)] + [None]
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"id": list(range(201)), "body": texts})
    pyarrow.parquet.write_table(table, path, row_group_size=37)
    if suffix:
        packed = tmp_path / "a.parquet.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    sources = [source(path, "parquet", None)]
    raw_parts = list(read_raw_parts(sources, "body", part_bytes=1000))
    assert len(raw_parts) > 5
    rows = [row for raw in raw_parts for excerpt in raw.excerpts for row in excerpt.data]
    values = [row["body"] for row in rows if isinstance(row, dict)]
    assert values == texts
    first = [excerpt.line for raw in raw_parts for excerpt in raw.excerpts]
    assert all(
        rows[line - 1] == excerpt.data[0] for raw in raw_parts for excerpt in raw.excerpts for line in [excerpt.line]
    )
    assert first == sorted(first)
    for k, raw in enumerate(raw_parts):
        assert list(read_raw_parts(sources, "body", k + 1, raw.end, 1000)) == raw_parts[k + 1 :]
    (problem,) = problems_of(list(read_raw_parts(sources, "text")))
    assert problem.kind == "missing_column"
    assert "id, body" in problem.detail


def test_a_file_that_is_no_parquet_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"not parquet at all")
    (problem,) = problems_of(list(read_raw_parts([source(path, "parquet", None)])))
    assert problem.kind == "unreadable_file"


PROSE = [
    "It was late. The rain had stopped. Nobody spoke for a while.",
    "She looked up. There was a light in the window! Who could it be?",
    "He knew. He had always known. It did not matter now.",
]
WRAPPED = (
    "The first paragraph of this file was wrapped by an editor at about\n"
    "seventy columns, so that most of its lines end in the middle of a\n"
    "sentence and a blank line only means that a paragraph is over.\n"
)


@pytest.mark.parametrize(
    ("samples", "layout"),
    [
        (["\n".join(PROSE) + "\n\n" + "\n".join(PROSE[::-1])], "paragraphs"),
        (["\n".join(p.replace(". ", ".\n") for p in PROSE) + "\n\nOne more.\nAnd one."], "sentences"),
        (["It was late.\nThe rain had stopped.\nNobody spoke."], "sentences"),
        ([(WRAPPED + "\n") * 5], "files"),
        (["\n\n".join(PROSE)] * 3, "files"),
        (["\n".join(PROSE)] * 3, "files"),
        (["\n\n".join(PROSE)], "paragraphs"),
        ([], "paragraphs"),
    ],
)
def test_layouts_are_recognised(samples: list[str], layout: str) -> None:
    assert detect_layout(samples, "en")[0] == layout


def test_shared_files_are_recognised(shared: Path) -> None:
    text = (shared / "fixtures/official/pretraining_input.txt").read_text(encoding="utf-8")
    assert detect_layout([text[: 1 << 18]], "en")[0] == "sentences"
    for name in ("wiki", "novels"):
        with lzma.open(shared / f"data/corpus/{name}.txt.xz", "rt", encoding="utf-8") as stream:
            assert detect_layout([stream.read(1 << 18)], "en")[0] == "paragraphs"


def test_wrapped_documents_are_joined_and_others_are_not() -> None:
    joined = paragraphs_of(WRAPPED + "\n" + WRAPPED)
    assert joined == [" ".join(WRAPPED.split("\n")).strip()] * 2
    assert paragraphs_of("Title\n\nA body.") == ["Title", "A body."]
    assert paragraphs_of("a " * 200 + "\nb\n\nc") == ["a " * 199 + "a", "b", "c"]
    assert paragraphs_of("") == []


def test_a_failing_disk_is_no_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One.\n\nTwo.\n")

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    found = source(path)
    monkeypatch.setattr("litebert.data.corpus.ingest.open_binary", failing)
    with pytest.raises(OSError, match="Input/output error"):
        list(read_raw_parts([found], part_bytes=4096))
