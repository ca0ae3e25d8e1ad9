"""RACE: raw folders or JSON lines of passages with questions and four options each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase

from litebert.common.errors import DataError
from litebert.common.files import read_json, write_json
from litebert.common.rows import read_rows
from litebert.tasks.base import Example, Examples, Predictions, Scores
from litebert.tasks.forms.texts import ChoiceForm, gold_and_predicted, option_index
from litebert.tasks.metrics import accuracy
from litebert.tasks.problems import RowProblems
from litebert.tasks.task_data import require_gold, score_by_row, with_compressions

LEVELS = ("middle", "high")
_FOLDERS = ("", "RACE", "race")


@dataclass(frozen=True)
class RaceTask:
    """RACE, or one of its two levels: ``middle`` and ``high`` school."""

    name: str
    levels: tuple[str, ...] = LEVELS
    form: ChoiceForm = field(default_factory=ChoiceForm)
    max_length: int = 512
    main_metric: str = "accuracy"
    eval_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ()  # none: the answers of the test split are public

    def read(self, data: Path, split: str, problems: RowProblems) -> list[Example]:
        """Read ``<split>/<level>/*.txt``, ``<split>.<level>.jsonl`` or a file; rows are lines."""
        examples: list[Example] = []  # without those of another level, which a file may hold too
        for path, row, level, passage in self._passages(data, split):
            found = _examples(path, row, level, passage, problems, split == "train")
            examples += (example for example in found if example.group in (*self.levels, ""))
        if not examples:
            raise DataError(f"{data} has no usable RACE question in its {split} split")
        return examples

    def score(self, examples: Examples, predictions: Predictions) -> Scores:
        """Return the accuracy over all questions and over each level, as fractions."""
        require_gold(examples, "RACE question", "answer")
        gold, predicted = gold_and_predicted(examples, predictions)
        scores = {"accuracy": accuracy(gold, predicted)}
        for level in LEVELS:
            part = [example.group == level for example in examples]
            if any(part):
                scores[f"accuracy_{level}"] = accuracy(gold[part], predicted[part])
        return scores

    def write_predictions(self, folder: Path, split: str, examples: Examples, predictions: Predictions) -> list[Path]:
        """Write ``predictions.json``: question id -> letter."""
        letters = {p.id: ascii_uppercase[p.value] for p in predictions if isinstance(p.value, int)}
        write_json(folder / "predictions.json", letters)
        return [folder / "predictions.json"]

    def score_file(self, file: Path, data: Path, split: str, null_odds: Path | None, problems: RowProblems) -> Scores:
        """Score ``{"middle13.txt-0": "A", ...}`` (or indices from 0) against the gold letters."""
        return score_by_row(self, file, data, split, problems, _predicted)

    def _passages(self, data: Path, split: str) -> Iterator[tuple[Path, int, str, object]]:
        """Yield ``(file, row, level, passage)`` of all levels."""
        places = (
            [(p, level) for level in self.levels for p in _level_files(data / name, split, level)] for name in _FOLDERS
        )
        files = [(data, "")] if data.is_file() else next(filter(None, places), None)
        if files is None:
            levels = ",".join(self.levels)
            raise DataError(
                f"{data} has no RACE {split} split: expected {split}/{{{levels}}}/*.txt or {split}.{{{levels}}}.jsonl"
            )
        for path, level in files:
            rows = [(1, read_json(path))] if path.suffix == ".txt" else read_rows(path, "jsonl")
            yield from ((path, row, level, passage) for row, passage in rows)


RACE_TASKS: dict[str, RaceTask] = {
    "race": RaceTask("race"),
    "race-middle": RaceTask("race-middle", ("middle",)),
    "race-high": RaceTask("race-high", ("high",)),
}


def _level_files(folder: Path, split: str, level: str) -> list[Path]:
    raw = folder / split / level
    if raw.is_dir():
        return sorted(raw.glob("*.txt"))
    names = with_compressions(f"{split}.{level}.jsonl")
    return [folder / name for name in names if (folder / name).is_file()][:1]


def _examples(
    path: Path, row: int, level: str, passage: object, problems: RowProblems, training: bool
) -> Iterator[Example]:
    """Yield the questions of one passage; what is unusable is noted."""
    if not isinstance(passage, Mapping):
        problems.add(path, row, "missing column", "not an object")
        return
    article, questions = passage.get("article"), passage.get("questions")
    options, answers = passage.get("options"), passage.get("answers")
    if not (isinstance(article, str) and isinstance(questions, list) and isinstance(options, list)):
        problems.add(path, row, "missing column", "article, questions or options")
        return
    if not problems.check_text(path, row, article, "passage", training):
        return
    if len(questions) != len(options):
        detail = f"{len(questions)} questions, {len(options)} lists of options"
        problems.add(path, row, "missing column", detail, kept=True)
    name = str(passage.get("id", f"{path.stem}-{row}"))
    group = level or next((known for known in LEVELS if name.startswith(known)), "")
    for number, (question, choices) in enumerate(zip(questions, options, strict=False)):
        is_list = isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
        if not is_list or len(choices) < 2:
            problems.add(path, row, "missing column", f"options of question {number + 1}")
            continue
        texts = (question if isinstance(question, str) else "", *choices)
        if not all(problems.check_text(path, row, text, "text", training) for text in texts):
            continue
        gold = None
        if isinstance(answers, list):
            letter = answers[number] if number < len(answers) else None
            gold = option_index(letter, len(choices))
            if gold is None:
                problems.add(path, row, "unknown label", f"{letter!r} of question {number + 1}")
                continue
        yield Example(f"{name}-{number}", article, texts[0], tuple(choices), gold=gold, group=group)


def _predicted(value: object, example: Example) -> int:
    index = option_index(value, len(example.options))
    if index is None:
        last = ascii_uppercase[len(example.options) - 1]
        raise DataError(f"prediction {value!r} for {example.id} is not a letter from A to {last}")
    return index
