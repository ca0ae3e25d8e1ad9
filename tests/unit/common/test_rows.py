"""Rows keep their numbers, their quotation marks and their errors."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from litebert.common import delimited, rows
from litebert.common.errors import DataError
from litebert.common.rows import read_rows, read_rows_or_errors
from packing import compressed


def test_tsv_keeps_quotation_marks_and_csv_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('text\tlabel\n"open quote\t1\n\nplain\t0\n')
    (tmp_path / "a.csv").write_text('text,label\n"a, b",1\n"two\nlines",0\n')
    assert list(read_rows(tmp_path / "a.tsv")) == [
        (2, {"text": '"open quote', "label": "1"}),
        (4, {"text": "plain", "label": "0"}),
    ]
    assert list(read_rows(tmp_path / "a.csv")) == [
        (2, {"text": "a, b", "label": "1"}),
        (4, {"text": "two\nlines", "label": "0"}),
    ]


def test_a_short_row_lacks_its_columns_rather_than_holding_none(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n1\n")
    assert list(read_rows(tmp_path / "a.tsv")) == [(2, {"a": "1"})]


def test_a_row_with_too_many_cells_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\nfine,1\ngood, but long,1\n")
    with pytest.raises(DataError, match=r"a\.csv:3: 3 cells for 2 columns; quote texts"):
        list(read_rows(path))
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\ngood\tbut long\t1\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: 3 cells for 2 columns; change texts"):
        list(read_rows(path))
    path.write_text("text\tlabel\nnothing is lost\t1\t\t\n")
    assert list(read_rows(path)) == [(2, {"text": "nothing is lost", "label": "1"})]


def test_jsonl_and_parquet(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as stream:
        stream.write('{"text": "x"}\n\n{"text": "y"}\n')
    assert list(read_rows(tmp_path / "a.jsonl.gz")) == [(1, {"text": "x"}), (3, {"text": "y"})]
    table = pyarrow.table({"text": ["x", "y"], "label": [0, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    packed = tmp_path / "a.parquet.xz"
    packed.write_bytes(compressed((tmp_path / "a.parquet").read_bytes(), ".xz"))
    for path in (tmp_path / "a.parquet", packed):
        assert list(read_rows(path)) == [(1, {"text": "x", "label": 0}), (2, {"text": "y", "label": 1})]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"a": 1}\n{oops\n', "a.jsonl:2: not valid JSON"),
        ("a.jsonl", b"[1]\n", "a.jsonl:1: expected a JSON object"),
        ("a.tsv", b"", "is empty"),
        ("a.jsonl", b'{"a": "\xff\xfe"}\n', "not UTF-8"),
        ("a.jsonl.gz", b"no gzip", "cannot be read"),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n', mtime=0)[:-9], "cannot be read"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 40, "cannot be read"),
        ("a.jsonl.xz", lzma.compress(b'{"a": 1}\n')[:-30] + b"\0" * 30, "cannot be read"),
        ("a.parquet", b"no parquet", "not a readable Parquet"),
        ("a.doc", b"", "unknown format"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_rows(tmp_path / name))


def test_reading_goes_on_behind_a_malformed_row_if_wished(tmp_path: Path) -> None:
    deep = "[" * 100_000
    (tmp_path / "a.jsonl").write_text(f'{{"a": 1}}\n{{"a": \n[1]\n{deep}\n{{"a": 2}}\n')
    (tmp_path / "a.csv").write_text("a,b\n1,2\n1,2,3\n3,4\n")
    for name, bad, good in (("a.jsonl", [2, 3, 4], [1, 5]), ("a.csv", [3], [2, 4])):
        rows = list(read_rows_or_errors(tmp_path / name))
        assert [number for number, row in rows if isinstance(row, DataError)] == bad
        assert [number for number, row in rows if not isinstance(row, DataError)] == good
    with pytest.raises(DataError, match=r"a\.jsonl:2: not valid JSON"):
        list(read_rows(tmp_path / "a.jsonl"))


def test_lines_and_cells_of_any_length_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered here; a line of 200 MB costs no more than one of 16."""
    for module in (rows, delimited):
        monkeypatch.setattr(module, "LONGEST_LINE", 100_000)
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": "' + "x" * 500_000 + '"}\n{"a": 2}\n')
    found = dict(read_rows_or_errors(path))
    assert found[1] == {"a": 1}
    assert isinstance(found[2], DataError)
    assert found[3] == {"a": 2}
    for name, text in {
        "long.csv": "a,b\n" + "x" * 500_000 + ",1\nfine,2\n",
        "many.csv": "a,b\n" + "x," * 500_000 + "\nfine,2\n",
        "open.csv": 'a,b\n"' + "x,y\n" * 60_000 + "fine,2\n",
        "words.conll": "x" * 500_000 + " O\n\nfine O\n",
    }.items():
        (tmp_path / name).write_text(text)
        found = dict(read_rows_or_errors(tmp_path / name))
        assert isinstance(found[min(found)], DataError), name
        assert isinstance(found[max(found)], dict), name
    pyarrow.parquet.write_table(pyarrow.table({"a": ["short", "y" * 500_000, *["z"] * 9]}), tmp_path / "a.parquet")
    found = dict(read_rows_or_errors(tmp_path / "a.parquet"))
    assert isinstance(found[2], DataError)
    assert [number for number, row in found.items() if isinstance(row, dict)] == [1, *range(3, 12)]
    pyarrow.parquet.write_table(pyarrow.table({"a": ["y" * 500_000]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="not a readable Parquet file: rows of more than"):
        list(read_rows(tmp_path / "a.parquet"))


def test_a_line_or_row_that_is_not_utf8_is_one_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n{"a": "\xff"}\n\0\0\0\n{"a": 2}\n')
    found = dict(read_rows_or_errors(tmp_path / "a.jsonl"))
    assert [number for number, row in found.items() if isinstance(row, dict)] == [1, 4]
    values = pyarrow.array([b"fine", b"\xff\xfe", b"good"]).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": values}), tmp_path / "a.parquet")
    found = dict(read_rows_or_errors(tmp_path / "a.parquet"))
    assert found[1] == {"text": "fine"}
    assert isinstance(found[2], DataError)
    assert found[3] == {"text": "good"}
