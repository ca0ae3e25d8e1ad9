"""SQuAD 1.1 and 2.0: their JSON files, official scores, and the files the scripts expect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import read_json, write_json
from litebert.common.limits import machine_memory
from litebert.tasks.base import Answer, Example, Examples, Predictions, Scores
from litebert.tasks.forms.requests import RowError
from litebert.tasks.forms.spans import SpanForm, gold_texts
from litebert.tasks.problems import RowProblems
from litebert.tasks.squad_metrics import squad1_scores, squad2_scores
from litebert.tasks.task_data import find_file, read_predictions, require_gold

_FOLDERS = ("squad", "SQuAD")
_GOLD_KEYS = frozenset({"answers", "is_impossible"})
_Question = tuple[int, object, Mapping[str, object]]
"""Its number from 1, the passage, and the question as it stands in the file."""


@dataclass(frozen=True)
class SquadTask:
    """SQuAD in one of its two versions; ``file_version`` is in the names of its files."""

    name: str
    form: SpanForm
    file_version: str
    max_length: int = 384
    main_metric: str = "f1"
    eval_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ("test",)

    def read(self, data: Path, split: str, problems: RowProblems) -> list[Example]:
        """Read ``<split>-v1.1.json`` (``-v2.0``) or ``<split>.json``; rows count questions."""
        path = self._file(data, split)
        training = split == "train"
        rows = list(_questions(path))
        # A test file may hold questions alone; where some have answers, one without is a fault.
        has_gold = training or any(_GOLD_KEYS & question.keys() for *_, question in rows)
        examples = []
        for asked in rows:
            try:
                examples.append(self._example(path, asked, has_gold, problems, training))
            except RowError as error:
                problems.add(path, asked[0], error.reason, error.detail)
        if not any(examples):
            raise DataError(f"{path} has no usable question; {len(problems):,} are bad")
        return [example for example in examples if example is not None]

    def score(self, examples: Examples, predictions: Predictions) -> Scores:
        """Return the official figures in percent; of 2.0 only ``best_`` ones tune the threshold, on these examples."""
        require_gold(examples, "question", "gold answers")
        scores = self.form.score(examples, predictions)
        if not self.form.may_be_unanswerable:
            return scores
        odds = {p.id: p.no_answer or 0.0 for p in predictions}
        tuned = squad2_scores({e.id: gold_texts(e) for e in examples}, _best_spans(predictions), odds)
        return {**scores, **{name: tuned[name] for name in tuned if name.startswith("best_")}}

    def write_predictions(self, folder: Path, split: str, examples: Examples, predictions: Predictions) -> list[Path]:
        """Write ``predictions.json`` and ``nbest.json``; for 2.0 also all answers and the odds, to tune thresholds."""
        files: dict[str, object] = {
            "predictions.json": {p.id: p.value for p in predictions},
            "nbest.json": {p.id: [asdict(span) for span in p.spans] for p in predictions},
        }
        if self.form.may_be_unanswerable:
            files["null_odds.json"] = {p.id: p.no_answer for p in predictions}
            files["answers.json"] = _best_spans(predictions)
        for name, values in files.items():
            write_json(folder / name, values)
        return [folder / name for name in files]

    def score_file(self, file: Path, data: Path, split: str, null_odds: Path | None, problems: RowProblems) -> Scores:
        """Return exactly what the official script prints for these files."""
        path = self._file(data, split)
        golds = {}
        for number, _, question in _questions(path):
            try:
                golds[_text(question, "id")] = [answer.text for answer in _answers(question)]
            except RowError as error:
                raise DataError(f"{path}:{number}: {error}") from None
        if not golds:
            raise DataError(f"{path} has no question, so nothing to score")
        answers: dict[str, str] = {}
        for id, text in read_predictions(file).items():
            if not isinstance(text, str):
                raise DataError(f"{file}: the answer to {id} is {text!r}; expected a text")
            answers[id] = text
        if not self.form.may_be_unanswerable:
            return squad1_scores(golds, answers)
        if null_odds is None:
            return squad2_scores(golds, answers)
        odds = {}
        for id, value in read_json(null_odds).items():
            if not isinstance(value, (int, float)):
                raise DataError(f"{null_odds}: the odds of {id} are {value!r}; expected a number")
            odds[id] = float(value)
        return squad2_scores(golds, answers, odds)

    def _file(self, data: Path, split: str) -> Path:
        names = (f"{split}-{self.file_version}.json", f"{split}.json")
        return find_file(data, names, f"{self.name} {split} split", _FOLDERS)

    def _example(
        self, path: Path, asked: _Question, has_gold: bool, problems: RowProblems, training: bool
    ) -> Example | None:
        """Return the example of a question; None if it is unusable (which is noted)."""
        row, context, question = asked
        if not isinstance(context, str):
            raise RowError("missing column", "context of its paragraph")
        id, text = _text(question, "id"), _text(question, "question")
        parts = {"question": text, "passage": context}
        if not all(problems.check_text(path, row, part, what, training) for what, part in parts.items()):
            return None
        if not has_gold:
            return Example(id, context, text)
        if not _GOLD_KEYS & question.keys():
            raise RowError("missing column", f"answers (question {id})")
        answers = tuple(_locate_answer(context, answer) for answer in _answers(question))
        lost = [answer for answer in answers if answer.start < 0]
        if lost:
            detail = f"{lost[0].text!r} (question {id})"
            problems.add(path, row, "answer not in its passage", detail, kept=not training)
            if training:
                return None
        impossible = bool(question.get("is_impossible", False)) or not answers
        if impossible and not self.form.may_be_unanswerable:
            raise RowError("question without answer", f"question {id}")
        return Example(id, context, text, gold=() if impossible else answers)


SQUAD_TASKS: dict[str, SquadTask] = {
    "squad1": SquadTask("squad1", SpanForm(), "v1.1"),
    "squad2": SquadTask("squad2", SpanForm(may_be_unanswerable=True), "v2.0", max_length=512, main_metric="best_f1"),
}


def _questions(path: Path) -> Iterator[_Question]:
    """Yield the questions of a file; a file of another shape is a DataError."""
    number = 0
    try:
        for article in _list(read_json(path, machine_memory() // 2)["data"]):
            for paragraph in _list(article["paragraphs"]):
                for question in _list(paragraph["qas"]):
                    number += 1
                    yield number, paragraph.get("context"), question
    except KeyError as error:
        raise DataError(
            f"{path}: no {error} after question {number:,}; expected a SQuAD file "
            "(data > paragraphs > context, qas > id, question, answers)"
        ) from None
    except TypeError:
        raise DataError(f"{path}: question {number + 1:,} is not laid out as in SQuAD") from None


def _text(question: Mapping[str, object], name: str) -> str:
    value = question.get(name)
    if value is None:
        raise RowError("missing column", name)
    return str(value)


def _list(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TypeError("expected a list of objects")
    return value


def _answers(question: Mapping[str, object]) -> tuple[Answer, ...]:
    try:
        listed = _list(question.get("answers") or [])
    except TypeError:
        raise RowError("missing column", "answers as a list of {text, answer_start}") from None
    return tuple(
        Answer(_text(one, "text"), start if isinstance(start := one.get("answer_start"), int) else -1) for one in listed
    )


def _locate_answer(context: str, answer: Answer) -> Answer:
    """Return the answer with a start that is true: as given, else its nearest occurrence, or -1."""
    text, start = answer.text, answer.start
    if text and start >= 0 and context.startswith(text, start):
        return answer
    places = [] if not text else [m.start() for m in re.finditer(f"(?={re.escape(text)})", context)]
    return Answer(text, min(places, key=lambda place: abs(place - start), default=-1))


def _best_spans(predictions: Predictions) -> dict[str, str]:
    """Return an answer to every question, also where none is likelier."""
    return {p.id: p.spans[0].text if p.spans else "" for p in predictions}
