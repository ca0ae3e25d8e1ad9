"""Questions made from plain text: the answer stands where the file says, and not in its question."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

from cloze_questions import LEVELS, Candidate, ask, candidates, questions
from cloze_questions import __file__ as script

from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import find_task

PASSAGE = (
    "In 1842 the painter Anna Maria Lind moved from Bremen to a small house near the harbour. "
    "She sold about 300 pictures of ships, boats and sailors to Dutch merchants during the following years. "
    "Her brother, a doctor, wrote long letters about the weather (and the winter storms) to the academy."
)


def test_answers_are_years_numbers_names_and_things() -> None:
    sentence = "In 1842 the painter Anna Maria Lind sold 300 pictures of ships, boats (and sails)."
    words = sentence.split()
    found = [(c.kind, " ".join(words[c.first : c.last + 1])) for c in candidates(words)]
    assert found == [
        ("year", "1842"),
        ("thing", "painter"),
        ("name", "Anna Maria Lind"),
        ("thing", "sold"),
        ("number", "300"),
        ("thing", "pictures"),
        ("thing", "ships,"),
        ("thing", "boats"),
        ("thing", "sails)."),
    ]


def test_a_question_has_words_around_the_answer_in_their_order_and_a_question_word() -> None:
    words = PASSAGE.split(". ")[0].split()
    answer = next(c for c in candidates(words) if c.kind == "name")
    assert words[answer.first : answer.last + 1] == ["Anna", "Maria", "Lind"]
    asked = [ask(words, answer, LEVELS["hard"], random.Random(seed)) for seed in range(40)]
    assert len(set(asked)) > 20
    for question in asked:
        said = question.rstrip("?").lower().split()
        assert {"who", "what", "which", "where"} & set(said)
        assert not {"anna", "maria", "lind"} & set(said)
        assert set(said) - {"who", "what", "which", "where"} <= {w.lower() for w in words}
    year = ask(words, Candidate("year", 1, 1), LEVELS["hard"], random.Random(0)).lower()
    assert "when" in year or "what year" in year


def test_an_easy_question_is_its_sentence_with_a_question_word_for_the_answer() -> None:
    words = PASSAGE.split(". ")[0].split()
    answer = next(c for c in candidates(words) if c.kind == "name")
    asked = ask(words, answer, LEVELS["easy"], random.Random(0))
    assert re.fullmatch(
        r"In 1842 the painter (who|what|which|where) moved from Bremen to a small house near the harbour\?", asked
    )


def test_answers_stand_where_they_are_said_to_stand() -> None:
    for seed in range(30):
        made = list(questions(PASSAGE, 2, LEVELS["hard"], random.Random(seed)))
        assert len(made) == 2
        for _, answer, start in made:
            assert PASSAGE[start : start + len(answer)] == answer
            assert answer[0].isalnum()
            assert answer[-1].isalnum()


def test_the_files_are_squad_files(tmp_path: Path) -> None:
    lines = [PASSAGE.replace("1842", str(1500 + n)) for n in range(30)] + ["Too short.", ""]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    options = ["--input", str(tmp_path / "text.txt"), "--passages", "20", "--dev-passages", "5", "--level", "easy"]
    for out in ("one", "same"):
        subprocess.run([sys.executable, script, str(tmp_path / out), *options], check=True)
    task = find_task("squad1")
    for split, count in (("train", 20), ("dev", 5)):
        problems = RowProblems(strict=True)
        examples = task.read(tmp_path / "one", split, problems)
        assert count <= len(examples) <= 3 * count
        name = f"{split}-v1.1.json"
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "same" / name).read_bytes()


def test_passages_of_a_file_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join([PASSAGE] * 3), encoding="utf-8")
    made = [sys.executable, script]
    first = ["--input", str(tmp_path / "text.txt"), "--passages", "2", "--dev-passages", "1", "--level", "easy"]
    subprocess.run([*made, str(tmp_path / "first"), *first], check=True)
    again = [*made, str(tmp_path / "again"), *first, "--not-in", str(tmp_path / "first" / "dev-v1.1.json")]
    answer = subprocess.run(again, check=False, capture_output=True, text=True)
    assert answer.returncode != 0
    assert "have 0 paragraphs" in answer.stderr
