"""GLUE files: columns by header name, quotation marks, bad rows, leaderboard tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from litebert.common.errors import DataError
from litebert.tasks.base import Prediction
from litebert.tasks.benchmarks.glue import GLUE_TASKS
from litebert.tasks.problems import MAX_WORDS, RowProblems
from litebert.tasks.scoring import read_splits


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_quotation_marks_and_odd_line_ends_are_text(tmp_path: Path) -> None:
    write(
        tmp_path / "RTE" / "dev.tsv",
        "index\tsentence1\tsentence2\tlabel",
        '0\t"He said\tit was late.\tentailment',
        "1\tA \u2028 b \x85 c\td\x0b e\tnot_entailment",
    )
    examples = GLUE_TASKS["rte"].read(tmp_path, "dev", RowProblems(strict=True))
    assert [(e.text, e.text_pair, e.gold) for e in examples] == [
        ('"He said', "it was late.", 0),
        ("A \u2028 b \x85 c", "d\x0b e", 1),
    ]


def test_root_and_task_folder_give_the_same(tmp_path: Path) -> None:
    write(tmp_path / "SST-2" / "train.tsv", "sentence\tlabel", "fine \t1", "dull \t0")
    task = GLUE_TASKS["sst2"]
    root = task.read(tmp_path, "train", RowProblems())
    assert root == task.read(tmp_path / "SST-2", "train", RowProblems())
    assert [e.gold for e in root] == [1, 0]


def test_columns_are_found_by_name_whatever_their_number(tmp_path: Path) -> None:
    short = write(tmp_path / "a.tsv", "index\tsentence1\tsentence2\tgold_label", "0\tp\th\tneutral")
    names = ["index", "promptID", "genre", "parse", "sentence1", "sentence2", "label1", "gold_label"]
    long = write(tmp_path / "b.tsv", "\t".join(names), "0\t1\tx\t(y)\tp\th\tentailment\tneutral")
    task = GLUE_TASKS["mnli"]
    short_examples = task.read(short, "dev_matched", RowProblems())
    assert short_examples == task.read(long, "dev_matched", RowProblems())
    assert task.form.labels[2] == "neutral"
    assert short_examples[0].gold == 2


def test_cola_has_a_header_only_in_its_test_file(tmp_path: Path) -> None:
    write(tmp_path / "CoLA" / "dev.tsv", "gj04\t1\t\tThe boy sat.", "gj04\t0\t*\tBoy the sat.")
    write(tmp_path / "CoLA" / "test.tsv", "index\tsentence", "0\tThe boy sat.")
    task = GLUE_TASKS["cola"]
    dev = task.read(tmp_path, "dev", RowProblems())
    assert [(e.text, e.gold) for e in dev] == [("The boy sat.", 1), ("Boy the sat.", 0)]
    test = task.read(tmp_path, "test", RowProblems())
    assert [(e.text, e.gold) for e in test] == [("The boy sat.", None)]


BAD_ROWS = (
    "id\tquestion1\tquestion2\tis_duplicate",
    "0\tfine\tgood\t1",
    "1\tonly one",
    "2\tfine\tgood\tmaybe",
    "3\t \tgood\t0",
    "4\t" + "word " * (MAX_WORDS + 1) + "\tgood\t0",
    "5\tfine\tbad\t0",
)


def test_bad_rows_are_reported_with_file_and_row_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "QQP" / "train.tsv", *BAD_ROWS)
    problems = RowProblems()
    examples = GLUE_TASKS["qqp"].read(tmp_path, "train", problems)
    assert [e.id for e in examples] == ["0", "5"]
    assert problems.counts() == {"missing column": 1, "unknown label": 1, "empty text": 1, "overlong text": 1}
    report = problems.report()
    for line, row in zip(report, (3, 4, 5, 6), strict=False):
        assert line.startswith(f"{path}:{row}: ")
    assert report[-1].startswith("4 bad rows: ")


def test_evaluation_keeps_every_row_that_can_be_scored(tmp_path: Path) -> None:
    path = write(tmp_path / "dev.tsv", *BAD_ROWS)
    problems = RowProblems()
    examples = GLUE_TASKS["qqp"].read(path, "dev", problems)
    assert [e.id for e in examples] == ["0", "3", "4", "5"]
    assert len(problems) == 4


@pytest.mark.parametrize("row", range(2, 6))
def test_strict_stops_at_each_kind_of_bad_row(tmp_path: Path, row: int) -> None:
    path = write(tmp_path / "train.tsv", BAD_ROWS[0], BAD_ROWS[row])
    with pytest.raises(DataError, match=r"train\.tsv:2: .*--strict"):
        GLUE_TASKS["qqp"].read(path, "train", RowProblems(strict=True))


def test_every_bad_row_is_written(tmp_path: Path) -> None:
    path = write(tmp_path / "dev.tsv", "sentence\tlabel", "fine\t1", *["odd\tmaybe"] * 5)
    problems = RowProblems()
    GLUE_TASKS["sst2"].read(path, "dev", problems)
    problems.write(tmp_path / "bad_rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "bad_rows.jsonl").read_text().splitlines()]
    assert [(row["row"], row["reason"]) for row in rows] == [(number, "unknown label") for number in range(3, 8)]
    RowProblems().write(tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()


def test_missing_files_and_columns_say_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no rte dev split: expected dev\.tsv"):
        GLUE_TASKS["rte"].read(tmp_path, "dev", RowProblems())
    path = write(tmp_path / "x.tsv", "a\tb", "1\t2")
    with pytest.raises(DataError, match="its header is: a, b"):
        GLUE_TASKS["rte"].read(path, "dev", RowProblems())


def test_leaderboard_tables(tmp_path: Path) -> None:
    mnli, stsb = GLUE_TASKS["mnli"], GLUE_TASKS["stsb"]
    (path,) = mnli.write_predictions(tmp_path, "test_mismatched", [], [Prediction("0", 1), Prediction("1", 0)])
    assert path.name == "MNLI-mm.tsv"
    assert path.read_text() == "index\tprediction\n0\tentailment\n1\tcontradiction\n"
    (path,) = stsb.write_predictions(tmp_path, "test", [], [Prediction("0", 5.25)])
    assert path.read_text() == "index\tprediction\n0\t5.000\n"


def test_a_written_table_scores_as_the_predictions_it_holds(tmp_path: Path) -> None:
    data = write(tmp_path / "dev.tsv", "sentence\tlabel", *(f"s{i}\t{i % 2}" for i in range(8)))
    task = GLUE_TASKS["sst2"]
    examples = task.read(data, "dev", RowProblems())
    predictions = [Prediction(e.id, int(i in (1, 2, 3))) for i, e in enumerate(examples)]
    (path,) = task.write_predictions(tmp_path, "dev", examples, predictions)
    assert task.score_file(path, data, "dev", None, RowProblems()) == task.score(examples, predictions)
    assert task.score(examples, predictions) == {"accuracy": 5 / 8}


def test_scores_outside_the_range_are_scored_and_cut_only_for_the_leaderboard(tmp_path: Path) -> None:
    lines = (f"a\tb\t{score}" for score in (5.0, 4.0, 1.0, 0.0))
    data = write(tmp_path / "dev.tsv", "sentence1\tsentence2\tscore", *lines)
    task = GLUE_TASKS["stsb"]
    examples = task.read(data, "dev", RowProblems())
    values = (5.31234567, 5.02, 0.5, -0.25)
    predictions = [Prediction(str(index), value) for index, value in enumerate(values)]
    (path,) = task.write_predictions(tmp_path, "dev", examples, predictions)
    scores = task.score_file(path, data, "dev", None, RowProblems())
    assert scores == task.score(examples, predictions)
    text = write(tmp_path / "text.tsv", "index\tprediction", *(f"{i}\tnan" for i in range(4)))
    with pytest.raises(DataError, match="'nan' for row 0 is not a number"):
        task.score_file(text, data, "dev", None, RowProblems())


def test_a_test_split_may_have_placeholders_for_labels(tmp_path: Path) -> None:
    write(tmp_path / "test.tsv", "sentence\tlabel", "a\t-1", "b\t-1")
    write(tmp_path / "dev.tsv", "sentence\tlabel", "a\t-1", "b\t1")
    problems = RowProblems()
    assert [e.gold for e in GLUE_TASKS["sst2"].read(tmp_path, "test", problems)] == [None, None]
    assert [e.gold for e in GLUE_TASKS["sst2"].read(tmp_path, "dev", problems)] == [1]
    assert problems.counts() == {"unknown label": 1}


def test_the_second_dev_split_may_be_missing_but_not_damaged(tmp_path: Path) -> None:
    header, row = "sentence1\tsentence2\tgold_label", "a\tb\tneutral"
    write(tmp_path / "dev_matched.tsv", header, row)
    task = GLUE_TASKS["mnli"]
    found = read_splits(task, tmp_path, None, RowProblems(strict=True))
    assert [name for name, _ in found] == ["dev_matched"]
    write(tmp_path / "dev_mismatched.tsv", "sentence1\tlabel", row)
    with pytest.raises(DataError, match=r"dev_mismatched\.tsv has no column"):
        read_splits(task, tmp_path, None, RowProblems())


def test_scoring_names_what_is_wrong_with_predictions(tmp_path: Path) -> None:
    data = write(tmp_path / "dev.tsv", "sentence\tlabel", "a\t1", "b\t0")
    task = GLUE_TASKS["sst2"]
    short = write(tmp_path / "short.tsv", "index\tprediction", "0\t1")
    with pytest.raises(DataError, match="1 of 2 examples have no prediction"):
        task.score_file(short, data, "dev", None, RowProblems())
    wrong = write(tmp_path / "wrong.tsv", "index\tprediction", "0\t1", "1\tpositive")
    with pytest.raises(DataError, match="'positive' for row 1 is not one of 0, 1"):
        task.score_file(wrong, data, "dev", None, RowProblems())


def test_predictions_of_another_split_are_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "dev.tsv", "sentence\tlabel", "a\t1", "b\tmaybe", "c\t0")
    task = GLUE_TASKS["sst2"]
    three, four = (write(tmp_path / f"{n}.tsv", "index\tprediction", *(f"{i}\t1" for i in range(n))) for n in (3, 4))
    # The second row is skipped for its label, so one prediction may be left over.
    assert task.score_file(three, data, "dev", None, RowProblems()) == {"accuracy": 0.5}
    with pytest.raises(DataError, match=r"2 of 4 predictions are for no example \(first: 1\)"):
        task.score_file(four, data, "dev", None, RowProblems())


def test_training_needs_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "train.tsv", "sentence\tlable", "fine\t1")
    with pytest.raises(DataError, match=r"no column 'label'; its header is: sentence, lable"):
        GLUE_TASKS["sst2"].read(path, "train", RowProblems())
    write(tmp_path / "AX.tsv", "sentence1\tsentence2", "a\tb")
    assert len(GLUE_TASKS["ax"].read(tmp_path, "test", RowProblems())) == 1
    with pytest.raises(DataError, match="ax has no training data"):
        GLUE_TASKS["ax"].read(tmp_path, "train", RowProblems())


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv.gz"
    path.write_bytes(gzip.compress(b"sentence\tlabel\nfine\t1\n")[:-9])
    with pytest.raises(DataError, match=r"dev\.tsv\.gz cannot be read"):
        GLUE_TASKS["sst2"].read(tmp_path, "dev", RowProblems())
