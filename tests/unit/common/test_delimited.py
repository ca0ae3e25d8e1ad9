"""Tables as spreadsheets, databases and annotators write them; nothing is lost without a word."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from litebert.common.delimited import Dialect, find_dialect
from litebert.common.errors import ConfigError, DataError
from litebert.common.rows import check_writable, describe_table, read_rows, read_rows_or_errors, row_format, write_rows

TEXTS = {
    "cp1252": ["Die Rechnung für März ist falsch", "Das Gerät läuft nicht", "ça coûte 20 € de trop"],
    "cp1250": ["Proszę o fakturę za październik", "Urządzenie nie działa", "Żądam zwrotu"],
    "cp1251": ["Счёт за март неверный", "Устройство не работает", "Прошу вернуть деньги"],
    "cp1254": ["Fatura yanlış, lütfen düzeltin", "Cihaz çalışmıyor", "İade istiyorum"],
    "cp932": ["請求書が間違っています", "機械が動きません", "返金してください"],
    "gb18030": ["发票不对请检查", "机器不能工作", "我要退款"],
    "utf-8": ["Die Rechnung für März", "發票不對", "Счёт"],
    "utf-8-sig": ["plain", "für", "x"],
    "utf-16": ["Die Rechnung für März", "發票不對", "Счёт"],
    "utf-16-le": ["Die Rechnung for March is wrong", "für", "x"],
    "utf-16-be": ["Die Rechnung for March is wrong", "für", "x"],
}


def table(texts: list[str], delimiter: str) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter)  # CRLF, as spreadsheets have it
    writer.writerow(["text", "team"])
    writer.writerows([text, "a;b,c|d" if index else "two\r\nlines"] for index, text in
                     enumerate(texts))  # fmt: skip
    return stream.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", TEXTS)
def test_every_encoding_and_separator_is_found(tmp_path: Path, encoding: str, delimiter: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(table(TEXTS[encoding], delimiter).encode(encoding))
    rows = [row for _, row in read_rows(path)]
    assert [row["text"] for row in rows] == TEXTS[encoding]
    assert [row["team"] for row in rows] == ["two\r\nlines", "a;b,c|d", "a;b,c|d"]
    zipped = tmp_path / "b.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert [row for _, row in read_rows(zipped)] == rows
    given = Dialect(delimiter, encoding)
    assert [row for _, row in read_rows_or_errors(path, dialect=given)] == rows


def test_one_short_word_is_enough_for_western_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("text;team\r\nfür;y\r\nplain;x\r\n".encode("cp1252"))
    dialect = find_dialect(tmp_path / "a.csv", Dialect())
    assert dialect.describe() == "cp1252 text (für), semicolons between the cells"


def test_umlauts_in_cp1252_are_no_signs_of_a_macintosh(tmp_path: Path) -> None:
    texts = ["Die Überweisung ist fällig, bitte", "nicht angekommen; ärgerlich", "schöne Grüße"]
    for encoding in ("cp1252", "mac_roman"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes("\r\n".join(["text", *texts]).encode(encoding))
        assert [row["text"] for _, row in read_rows(path)] == texts


def test_separators_in_the_only_column_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text\na, b; c\n"quoted, too"\nplain\n"two\nlines"\n')
    texts = [row["text"] for _, row in read_rows(path)]
    assert texts == ["a, b; c", "quoted, too", "plain", "two\nlines"]
    assert describe_table(path, "csv") == [f"{path}: one column"]


def test_what_is_usual_or_cannot_be_read_is_not_described(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,team\na,x\n")
    (tmp_path / "a.conll").write_text("Peter B-PER\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"text,team\na,x\n")[:-9])
    for name in ("a.csv", "a.conll", "b.csv.gz"):
        assert describe_table(tmp_path / name, row_format(name)) == []


def test_the_first_line_of_excel_names_the_separator(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sep=;\r\ntext;team\r\na, b, c;x\r\n")
    assert list(read_rows(tmp_path / "a.csv")) == [(3, {"text": "a, b, c", "team": "x"})]


def test_blank_lines_may_stand_before_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n\r\ntext,team\n\na,x\n")
    assert list(read_rows(tmp_path / "a.csv")) == [(5, {"text": "a", "team": "x"})]


def bad_and_good(path: Path) -> tuple[list[int], list[int]]:
    rows = list(read_rows_or_errors(path))
    bad = [number for number, row in rows if isinstance(row, DataError)]
    return bad, [number for number, row in rows if not isinstance(row, DataError)]


def test_an_open_quotation_mark_costs_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,team\n"open,x\n' + "good,x\n" * 3000)
    assert bad_and_good(path) == ([2], list(range(3, 3003)))
    path.write_text('text,team\n"open,x\ngood,x\n"open,y\n"fine, too",y\n"so" he said,y\n5" pipe,y\n')
    assert bad_and_good(path) == ([2, 4], [3, 5, 6, 7])
    assert [row["text"] for _, row in read_rows_or_errors(path) if isinstance(row, dict)] == [
        "good", "fine, too", "so he said", '5" pipe'
    ]  # fmt: skip


def test_bytes_in_another_encoding_cost_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,team\n" + "für,x\n".encode() * 3 + "für,x\n".encode("cp1252"))
    assert bad_and_good(path) == ([5], [2, 3, 4])


def test_quotes_in_tsv_are_text_unless_a_spreadsheet_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"a\tb"\tx\n"he ""said"" so"\ty\n')
    assert [row["text"] for _, row in read_rows(path)] == ["a\tb", 'he "said" so']
    path.write_text('text\tlabel\n"so" he said\tx\n"all of it"\ty\n')
    assert [row["text"] for _, row in read_rows(path)] == ['"so" he said', '"all of it"']


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"\0\1\2" * 99, "not a text file"),
        ("a.csv", b"a,b,a\n1,2,3\n", "two columns are called 'a'"),
        ("a.xlsx", b"PK", "spreadsheet; save it as CSV"),
        ("a.json", b"[1, 2", "not valid JSON"),
    ],
)
def test_what_is_not_a_table_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_rows(tmp_path / name))


def test_wrong_keys_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="unknown encoding 'latin-one'"):
        list(read_rows_or_errors(tmp_path / "a.csv", dialect=Dialect(encoding="latin-one")))
    with pytest.raises(ConfigError, match="should be one character"):
        list(read_rows_or_errors(tmp_path / "a.csv", dialect=Dialect(delimiter="::")))


def test_json_may_be_a_list_or_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('\n[{"a": 1},\n {"a": 2}]')
    (tmp_path / "b.json").write_text('{"a": 1}\n{"a": 2}\n')
    for name in ("a.json", "b.json"):
        assert list(read_rows(tmp_path / name)) == [(1, {"a": 1}), (2, {"a": 2})]


CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
# # B-NP O
rejects VBZ B-VP O

# text = Peter O
# sent_id 3
Peter NNP B-NP B-PER

short
Peter NNP B-NP B-PER

Blackburn NNP I-NP I-PER"""


@pytest.mark.parametrize("gap", [" ", "\t"])
def test_conll_columns_comments_and_document_lines(tmp_path: Path, gap: str) -> None:
    (tmp_path / "a.conll").write_text(CONLL.replace(" ", gap).replace(f"#{gap}text", "# text"))
    rows = list(read_rows_or_errors(tmp_path / "a.conll"))
    assert [number for number, _ in rows] == [5, 9, 12, 14]
    assert isinstance(rows[2][1], DataError)
    first = rows[0][1]
    assert isinstance(first, dict)
    assert (first["words"], first["tags"]) == (["EU", "#", "rejects"], ["B-ORG", "O", "O"])
    assert first["column2"] == ["NNP", "#", "VBZ"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_written_rows_are_read_back(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"id": 1, "label": 'good, "really"\nso', "scores": {"good": 0.5, "bad": 0.25}},
        {"id": 2, "error": "no text"},
        {"id": 3, "entities": [{"start": 0}]},
    ]
    path = tmp_path / f"a.{suffix}"
    write_rows(path, iter(rows))
    found = [row for _, row in read_rows(path)]
    values = [row["label"] for row in found if row.get("label")]
    assert values == [rows[0]["label"]]
    assert [str(row["id"]) for row in found] == ["1", "2", "3"]
    assert [row["error"] for row in found if row.get("error")] == ["no text"]
    if suffix in ("csv", "tsv"):
        assert found[0]["scores.good"] == "0.5"
        assert json.loads(str(found[2]["entities"])) == [{"start": 0}]
    else:
        assert found[0]["scores"] == {"good": 0.5, "bad": 0.25}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_table_is_whole_or_absent(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, object]]:
        yield {"a": 1}
        raise DataError("stopped")

    for suffix in ("csv", "jsonl", "parquet"):
        with pytest.raises(DataError, match="stopped"):
            write_rows(tmp_path / f"a.{suffix}", rows())
    assert not list(tmp_path.iterdir())
    for name in ("a.xml", "a.conll", "a.csv.gz"):
        with pytest.raises(DataError, match="cannot write|unknown format"):
            check_writable(tmp_path / name)
