"""SQuAD and RACE files: layouts, bad rows, official outputs."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from litebert.common.errors import DataError
from litebert.tasks.base import Answer, Prediction, Span
from litebert.tasks.benchmarks.race import RACE_TASKS
from litebert.tasks.benchmarks.squad import SQUAD_TASKS
from litebert.tasks.problems import MAX_WORDS, RowProblems
from litebert.tasks.scoring import is_scored


def squad_file(path: Path, *paragraphs: tuple[str, list[dict[str, object]]]) -> Path:
    data = [{"title": "t", "paragraphs": [{"context": c, "qas": qas} for c, qas in paragraphs]}]
    path.write_text(json.dumps({"version": "x", "data": data}), encoding="utf-8")
    return path


def question(id: str, *answers: tuple[str, int], text: str = "who ?", **extra: object) -> dict[str, object]:
    golds = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": text, "answers": golds, **extra}


def test_answers_are_where_they_say_or_at_the_nearest_place(tmp_path: Path) -> None:
    context = "Ann met Ann near Ann."
    path = squad_file(
        tmp_path / "train-v1.1.json", (context, [question("right", ("Ann", 8)), question("off", ("Ann", 15))])
    )
    examples = SQUAD_TASKS["squad1"].read(path.parent, "train", RowProblems(strict=True))
    assert [e.gold for e in examples] == [(Answer("Ann", 8),), (Answer("Ann", 17),)]


def bad_squad(tmp_path: Path, name: str) -> Path:
    return squad_file(
        tmp_path / name,
        ("Ann sat.", [question("ok", ("Ann", 0)), question("lost", ("Bo", 0))]),
        ("Ann sat.", [question("blank", ("Ann", 0), text=" ")]),
        ("", [question("empty", ("Ann", 0))]),
        ("word " * (MAX_WORDS + 1), [question("long", ("word", 0))]),
        ("Ann sat.", [question("none", is_impossible=True)]),
    )


def test_bad_questions_are_reported_and_left_out_of_training(tmp_path: Path) -> None:
    path = bad_squad(tmp_path, "train-v1.1.json")
    problems = RowProblems()
    examples = SQUAD_TASKS["squad1"].read(path, "train", problems)
    assert [e.id for e in examples] == ["ok"]
    assert problems.counts() == {
        "answer not in its passage": 1,
        "empty question": 1,
        "empty passage": 1,
        "overlong passage": 1,
        "question without answer": 1,
    }
    assert problems.report()[0] == (f"{path}:2: answer not in its passage: 'Bo' (question lost) (skipped)")
    with pytest.raises(DataError, match=r"train-v1\.1\.json:2: answer not in its passage"):
        SQUAD_TASKS["squad1"].read(path, "train", RowProblems(strict=True))


def test_a_question_without_something_is_a_bad_row(tmp_path: Path) -> None:
    whole = question("ok", ("Ann", 0))
    lame: list[dict[str, object]] = [
        {"id": "a", "question": "who ?", "answers": [{"answer_start": 0}]},
        {"id": "b", "question": "who ?", "answers": {"text": ["Ann"], "answer_start": [0]}},
        {"id": "c", "answers": []},
        {"question": "who ?", "answers": []},
        {"id": "e", "question": "who ?"},
    ]
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        path = squad_file(tmp_path / name, ("Ann sat.", [whole, *lame]))
        content = json.loads(path.read_text())
        content["data"][0]["paragraphs"].append({"qas": [question("no context", ("Ann", 0))]})
        path.write_text(json.dumps(content))
        problems = RowProblems()
        examples = SQUAD_TASKS["squad1"].read(path, name.split("-")[0], problems)
        assert [example.id for example in examples] == ["ok"]
        assert problems.counts() == {"missing column": 6}
        assert [problem.row for problem in problems.problems] == [2, 3, 4, 5, 6, 7]
        with pytest.raises(DataError, match=r"json:2: missing column: text"):
            SQUAD_TASKS["squad1"].read(path, "train", RowProblems(strict=True))
    answers = tmp_path / "predictions.json"
    answers.write_text(json.dumps({"ok": "Ann"}))
    with pytest.raises(DataError, match=r"dev-v1\.1\.json:2: missing column: text"):
        SQUAD_TASKS["squad1"].score_file(answers, tmp_path, "dev", None, RowProblems(strict=False))


@pytest.mark.parametrize("task", ["squad1", "squad2"])
def test_a_file_of_questions_alone_has_no_gold(tmp_path: Path, task: str) -> None:
    path = squad_file(tmp_path / "test.json", ("Ann sat.", [{"id": "a", "question": "who ?"}]))
    problems = RowProblems()
    (example,) = SQUAD_TASKS[task].read(path, "test", problems)
    assert example.gold is None
    assert len(problems) == 0


def test_evaluation_keeps_what_the_official_script_counts(tmp_path: Path) -> None:
    path = bad_squad(tmp_path, "dev-v2.0.json")
    examples = SQUAD_TASKS["squad2"].read(path, "dev", RowProblems())
    assert [e.id for e in examples] == ["ok", "lost", "blank", "empty", "long", "none"]
    assert examples[-1].gold == ()


def test_other_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    for content in ('{"data": [{"title": "t"}]}', '{"data": [3]}', "{}", "[]", "{"):
        path.write_text(content)
        with pytest.raises(DataError, match=r"dev\.json"):
            SQUAD_TASKS["squad1"].read(path, "dev", RowProblems())


def test_squad2_files_reproduce_the_score(tmp_path: Path) -> None:
    path = squad_file(
        tmp_path / "dev-v2.0.json", ("Ann sat.", [question("has", ("Ann", 0)), question("none", is_impossible=True)])
    )
    task = SQUAD_TASKS["squad2"]
    examples = task.read(path, "dev", RowProblems())
    predictions = [
        Prediction("has", "Ann", spans=(Span("Ann", 0, 3, 1.0, 1.0),), no_answer=0.1),
        Prediction("none", "sat", spans=(Span("sat", 4, 7, 1.0, 1.0),), no_answer=0.4),
    ]
    scores = task.score(examples, predictions)
    assert (scores["exact"], scores["best_exact"]) == (50.0, 100.0)
    files = task.write_predictions(tmp_path / "out", "dev", examples, predictions)
    assert [f.name for f in files] == [
        "predictions.json", "nbest.json", "null_odds.json", "answers.json",
    ]  # fmt: skip
    out = tmp_path / "out"
    again = task.score_file(out / "predictions.json", path, "dev", None, RowProblems())
    assert again == {key: value for key, value in scores.items() if not key.startswith("best_")}
    tuned = task.score_file(out / "answers.json", path, "dev", out / "null_odds.json", RowProblems())
    assert tuned["best_exact_thresh"] == scores["best_exact_thresh"] == 0.1


def test_compressed_squad_files_are_read_and_empty_ones_refused(tmp_path: Path) -> None:
    plain = squad_file(tmp_path / "plain.json", ("Ann sat.", [question("q", ("Ann", 0))]))
    (tmp_path / "dev-v1.1.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    answers = tmp_path / "answers.json.gz"
    answers.write_bytes(gzip.compress(b'{"q": "Ann"}'))
    task = SQUAD_TASKS["squad1"]
    assert [e.id for e in task.read(tmp_path, "dev", RowProblems())] == ["q"]
    assert task.score_file(answers, tmp_path, "dev", None, RowProblems())["exact_match"] == 100.0
    empty = squad_file(tmp_path / "empty.json")
    for task in SQUAD_TASKS.values():
        with pytest.raises(DataError, match=r"empty\.json has no question"):
            task.score_file(answers, empty, "dev", None, RowProblems())


PASSAGE = {
    "id": "middle1.txt",
    "article": "Ann sat by the river.",
    "questions": ["Ann _ .", "Where?"],
    "options": [["sat", "ran"], ["river", "sea"]],
    "answers": ["A", "B"],
}


def test_race_layouts_agree(tmp_path: Path) -> None:
    raw = tmp_path / "raw" / "RACE" / "dev" / "middle"
    raw.mkdir(parents=True)
    (raw / "1.txt").write_text(json.dumps(PASSAGE))
    lines = tmp_path / "lines"
    lines.mkdir()
    with lzma.open(lines / "dev.middle.jsonl.xz", "wt") as stream:
        stream.write(json.dumps(PASSAGE) + "\n")
    task = RACE_TASKS["race"]
    from_raw = task.read(tmp_path / "raw", "dev", RowProblems())
    assert from_raw == task.read(lines, "dev", RowProblems())
    assert [(e.id, e.gold, e.group) for e in from_raw] == [
        ("middle1.txt-0", 0, "middle"),
        ("middle1.txt-1", 1, "middle"),
    ]


def test_race_scores_by_level(tmp_path: Path) -> None:
    high = {**PASSAGE, "id": "high1.txt", "answers": ["B", "B"]}
    path = tmp_path / "dev.jsonl"
    path.write_text(json.dumps(PASSAGE) + "\n" + json.dumps(high) + "\n")
    task = RACE_TASKS["race"]
    examples = task.read(path, "dev", RowProblems())
    predictions = [Prediction(e.id, 1) for e in examples]
    assert task.score(examples, predictions) == {"accuracy": 0.75, "accuracy_middle": 0.5, "accuracy_high": 1.0}
    (file,) = task.write_predictions(tmp_path / "out", "dev", examples, predictions)
    assert task.score_file(file, path, "dev", None, RowProblems())["accuracy_middle"] == 0.5
    assert is_scored(task, "test", examples), "RACE's test answers are public"


def test_a_level_leaves_the_other_one_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    passages = [{**PASSAGE, "id": id} for id in ("middle1.txt", "high1.txt", "7")]
    path.write_text("".join(json.dumps(passage) + "\n" for passage in passages))
    for name, groups in (
        ("race", {"middle", "high", ""}),
        ("race-middle", {"middle", ""}),
        ("race-high", {"high", ""}),
    ):
        assert {e.group for e in RACE_TASKS[name].read(path, "dev", RowProblems())} == groups


def test_bad_race_rows(tmp_path: Path) -> None:
    path = tmp_path / "train.middle.jsonl"
    rows = [
        PASSAGE,
        {"id": "x"},
        {**PASSAGE, "answers": ["A", "Q"]},
        {**PASSAGE, "article": ""},
        {**PASSAGE, "article": "word " * (MAX_WORDS + 1)},
        {**PASSAGE, "options": [["sat", "ran"], ["one"]]},
        {**PASSAGE, "questions": [None, "What ?"]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = RowProblems()
    examples = RACE_TASKS["race-middle"].read(tmp_path, "train", problems)
    assert len(examples) == 5
    assert problems.counts() == {
        "missing column": 2,
        "empty text": 1,
        "unknown label": 1,
        "empty passage": 1,
        "overlong passage": 1,
    }
    assert problems.problems[0].row == 2


def test_race_without_files_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train/\{middle,high\}/\*\.txt"):
        RACE_TASKS["race"].read(tmp_path, "train", RowProblems())
