"""Tasks described by a TOML file: every kind, every format, and what can be wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from litebert.common.errors import ConfigError, DataError
from litebert.tasks.base import Answer, Prediction
from litebert.tasks.custom import CustomTask
from litebert.tasks.problems import MAX_WORDS, RowProblems
from litebert.tasks.registry import TASK_NAMES, find_task
from word_tokenizer import WordTokenizer

FILES = '[files]\ntrain = "train.jsonl"\ndev = "train.jsonl"\n'

KINDS: dict[str, tuple[str, dict[str, object], int | float | tuple[Any, ...], set[str]]] = {
    "classification": (
        'labels = ["bug", "praise"]\n' + FILES + '[columns]\ntext = "t"\nlabel = "l"\n',
        {"t": "it broke", "l": "bug"},
        0,
        {"accuracy", "f1_macro", "matthews", "f1"},
    ),
    "pair_classification": (
        'labels = ["no", "yes"]\n' + FILES + '[columns]\ntext = "t"\ntext_pair = "u"\nlabel = "l"\n',
        {"t": "a", "u": "b", "l": "yes"},
        1,
        {"accuracy", "f1_macro", "matthews", "f1"},
    ),
    "multi_label": (
        'labels = ["x", "y", "z"]\n' + FILES + '[columns]\ntext = "t"\nlabel = "l"\n',
        {"t": "a", "l": "z, x"},
        (1, 0, 1),
        {"f1_micro", "f1_macro", "exact_match"},
    ),
    "regression": (
        FILES + '[columns]\ntext = "t"\nlabel = "l"\n',
        {"t": "a", "l": 2.5},
        2.5,
        {"pearson", "spearman", "mae", "rmse", "negative_mse"},
    ),
    "multiple_choice": (
        FILES + '[columns]\ntext = "t"\nquestion = "q"\noptions = ["a", "b"]\nlabel = "l"\n',
        {"t": "Ann sat.", "q": "Who?", "a": "Ann", "b": "Bo", "l": "Bo"},
        1,
        {"accuracy"},
    ),
    "span_extraction": (
        FILES + '[columns]\ntext = "t"\nquestion = "q"\nanswer = "a"\n',
        {"t": "Ann sat.", "q": "What?", "a": "sat"},
        (Answer("sat", 4),),
        {"exact_match", "f1"},
    ),
    "token_classification": (
        'labels = ["O", "B-P"]\n' + FILES + '[columns]\nwords = "w"\nlabel = "l"\n',
        {"w": ["Ann", "sat"], "l": "B-P O"},
        (1, 0),
        {"precision", "recall", "f1", "accuracy"},
    ),
}


def make(tmp_path: Path, kind: str, rows: Sequence[Mapping[str, object]], head: str = "") -> CustomTask:
    body = KINDS[kind][0]
    (tmp_path / "task.toml").write_text(f'name = "mine"\nkind = "{kind}"\n{head}{body}')
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CustomTask.load(tmp_path / "task.toml")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_reads_scores_and_writes(tmp_path: Path, kind: str, words: WordTokenizer) -> None:
    _, row, gold, metrics = KINDS[kind]
    task = make(tmp_path, kind, [row, row])
    examples = task.read(tmp_path, "train", RowProblems(strict=True))
    assert [e.gold for e in examples] == [gold, gold]
    features = task.form.features(examples, words, 32)
    assert len(features) == 2
    assert all(feature.target is not None for feature in features)
    right = "sat" if kind == "span_extraction" else gold
    predictions = [Prediction(e.id, right) for e in examples]
    scores = task.score(examples, predictions)
    assert set(scores) == metrics
    assert task.main_metric in scores


@pytest.mark.parametrize("kind", ["classification", "multi_label", "token_classification"])
def test_written_predictions_score_the_same(tmp_path: Path, kind: str) -> None:
    _, row, gold, _ = KINDS[kind]
    task = make(tmp_path, kind, [row])
    examples = task.read(tmp_path, "dev", RowProblems())
    scores = (0.5,) * (3 if kind == "multi_label" else 2)
    predictions = [Prediction("0", gold, scores)]
    (file,) = task.write_predictions(tmp_path, "dev", examples, predictions)
    again = task.score_file(file, tmp_path, "dev", None, RowProblems())
    assert again == task.score(examples, predictions)


CHOICES = {"t": "Count.", "q": "How many?", "a": "1", "b": "0"}


def test_written_choices_score_the_same_whatever_the_options_say(tmp_path: Path) -> None:
    task = make(tmp_path, "multiple_choice", [{**CHOICES, "l": "B"}, {**CHOICES, "l": "A"}])
    examples = task.read(tmp_path, "dev", RowProblems(strict=True))
    assert [example.gold for example in examples] == [1, 0]
    predictions = [Prediction("0", 1, (0.2, 0.8)), Prediction("1", 0, (0.8, 0.2))]
    (file,) = task.write_predictions(tmp_path, "dev", examples, predictions)
    assert task.score_file(file, tmp_path, "dev", None, RowProblems()) == {"accuracy": 1.0}


def test_a_label_that_names_two_options_is_a_bad_row(tmp_path: Path) -> None:
    row = {**CHOICES, "b": "2"}
    task = make(tmp_path, "multiple_choice", [{**row, "l": "2"}, {**row, "l": "1"}])
    problems = RowProblems()
    (example,) = task.read(tmp_path, "train", problems)
    assert example.gold == 1
    assert problems.counts() == {"ambiguous label": 1}


@pytest.mark.parametrize("label", ["nan", "inf", "-Infinity", "much"])
def test_a_score_is_a_finite_number(tmp_path: Path, label: str) -> None:
    row = KINDS["regression"][1]
    task = make(tmp_path, "regression", [row, {**row, "l": label}])
    problems = RowProblems()
    assert len(task.read(tmp_path, "train", problems)) == 1
    assert problems.counts() == {"unknown label": 1}


def test_an_answer_start_of_minus_one_is_unknown(tmp_path: Path) -> None:
    rows = [{"t": "Ann met Ann.", "q": "Who?", "a": "Ann", "s": start} for start in (-1, 0, 8, 5, 99)]
    make(tmp_path, "span_extraction", rows)
    with (tmp_path / "task.toml").open("a") as stream:
        stream.write('answer_start = "s"\n')
    task = CustomTask.load(tmp_path / "task.toml")
    examples = task.read(tmp_path, "train", RowProblems(strict=True))
    assert [e.gold for e in examples] == [(Answer("Ann", start),) for start in (0, 0, 8, 0, 0)]


def test_csv_tsv_and_parquet_give_the_same_examples(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"t": 'say "hi", twice', "l": "bug"}, {"t": "it works", "l": "praise"}]
    task = make(tmp_path, "classification", rows)
    with (tmp_path / "a.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["t", "l"])
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "a.tsv").write_text("t\tl\n" + "".join(f"{r['t']}\t{r['l']}\n" for r in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    expected = task.read(tmp_path, "train", RowProblems())
    for name in ("a.csv", "a.tsv", "a.parquet"):
        assert task.read(tmp_path / name, "train", RowProblems(strict=True)) == expected


def test_bad_rows_of_users_are_counted(tmp_path: Path) -> None:
    rows = [
        {"t": "fine", "l": "bug"},
        {"t": "no label"},
        {"t": "odd", "l": "other"},
        {"t": "", "l": "bug"},
        {"t": "word " * (MAX_WORDS + 1), "l": "bug"},
    ]
    task = make(tmp_path, "classification", rows)
    problems = RowProblems()
    assert len(task.read(tmp_path, "train", problems)) == 1
    assert [p.row for p in problems.problems] == [2, 3, 4, 5]
    assert set(problems.counts()) == {
        "missing column", "unknown label", "empty text", "overlong text",
    }  # fmt: skip
    with pytest.raises(DataError, match=r"train\.jsonl:2: missing column: 'l'"):
        task.read(tmp_path, "train", RowProblems(strict=True))


def test_an_answer_that_does_not_occur_is_a_bad_row(tmp_path: Path) -> None:
    row = KINDS["span_extraction"][1]
    task = make(tmp_path, "span_extraction", [row, {**row, "a": "stood"}, {**row, "a": ""}])
    problems = RowProblems()
    assert len(task.read(tmp_path, "train", problems)) == 1
    assert set(problems.counts()) == {"answer not in its passage", "empty answer"}


def test_unanswerable_questions_are_allowed_when_the_file_says_so(tmp_path: Path) -> None:
    row = {**KINDS["span_extraction"][1], "a": ""}
    task = make(tmp_path, "span_extraction", [row], head="unanswerable = true\n")
    (example,) = task.read(tmp_path, "train", RowProblems(strict=True))
    assert example.gold == ()
    assert task.score([example], [Prediction("0", "")])["f1"] == 100.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"\nkind = "classify"\n' + FILES, "Did you mean 'classification'"),
        ('name = "x"\nkind = "regression"\n' + FILES, "needs columns.text"),
        (
            'name = "x"\nkind = "classification"\nlabels = ["one"]\n' + FILES + '[columns]\ntext="t"\nlabel="l"\n',
            "at least two names in 'labels'",
        ),
        ('name = "x"\nkind = "regression"\nlables = []\n' + FILES, "Did you mean 'labels'"),
        ('name = "x"\nkind = "regression"\n', "missing key 'files'"),
    ],
)
def test_task_files_are_checked(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "task.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        CustomTask.load(path)


def test_an_unknown_metric_is_named(tmp_path: Path) -> None:
    task = make(tmp_path, "classification", [KINDS["classification"][1]], 'metric = "acuracy"\n')
    examples = task.read(tmp_path, "dev", RowProblems())
    with pytest.raises(ConfigError, match="Did you mean 'accuracy'"):
        task.score(examples, [Prediction("0", 0)])


def test_every_name_is_a_task_and_others_get_a_suggestion() -> None:
    for name in TASK_NAMES:
        assert find_task(name).name == name
    with pytest.raises(ConfigError, match="Did you mean 'squad1'"):
        find_task("sqaud1")
