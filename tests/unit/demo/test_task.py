"""The labelled task of the demo: nothing of dev is seen in training, labels follow the text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from litebert.common.files import read_json
from litebert.demo.task import Sections, corpus_sections, cut_task, python_sections


def rows(folder: Path, split: str) -> list[dict[str, str]]:
    text = (folder / f"{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def sentences(topic: str, count: int) -> list[str]:
    return [f"Sentence number {n} says something long about {topic}." for n in range(count)]


def test_dev_documents_and_sentences_are_not_in_training(tmp_path: Path) -> None:
    shared = ("This very sentence stands in every single document here.",)
    parts = {
        label: {f"{label}{n}": [*sentences(f"{label}{n}", 20), *shared] for n in range(9)} for label in ("sea", "sky")
    }
    task = cut_task(parts, tmp_path / "task")
    train, dev = rows(tmp_path / "task", "train"), rows(tmp_path / "task", "dev")
    assert {row["document"] for row in train}.isdisjoint(row["document"] for row in dev)
    assert {row["text"] for row in train}.isdisjoint(row["text"] for row in dev)
    assert sum(row["text"] == shared[0] for row in train + dev) == 1
    assert task.labels == ("sea", "sky")
    for train_rows, dev_rows in zip(task.train, task.dev, strict=True):
        assert 0.2 <= dev_rows / (train_rows + dev_rows) <= 0.4


def test_a_part_of_one_document_is_cut_at_its_end(tmp_path: Path) -> None:
    parts = {name: {name: sentences(name, 100)} for name in ("one", "two")}
    cut_task(parts, tmp_path / "task")
    train, dev = rows(tmp_path / "task", "train"), rows(tmp_path / "task", "dev")
    assert [row["text"] for row in train + dev if row["part"] == "one"] == sentences("one", 100)
    assert len(dev) == 40


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"only": {"only": sentences("it", 500)}}, "one document"),
        ({str(n): {str(n): sentences(str(n), 9)} for n in range(30)}, "of 30 parts none"),
    ],
)
def test_where_no_task_can_be_cut_the_reason_is_kept(tmp_path: Path, parts: Sections, reason: str) -> None:
    task = cut_task(parts, tmp_path / "task")
    assert reason in task.reason
    assert not (tmp_path / "task" / "task.toml").exists()
    assert read_json(tmp_path / "task" / "cut.json")["reason"] == task.reason


def test_labels_are_folders_if_there_are_some(tmp_path: Path) -> None:
    for folder in ("law", "sport"):
        (tmp_path / folder).mkdir()
        for number in range(3):
            text = "\n".join(sentences(f"{folder} {number}", 30))
            (tmp_path / folder / f"{number}.txt").write_text(text, encoding="utf-8")
    parts = corpus_sections(tmp_path, tmp_path / "out")
    assert list(parts) == ["law", "sport"]
    assert list(parts["law"]) == ["law/0.txt", "law/1.txt", "law/2.txt"]


def test_the_library_falls_into_parts(tmp_path: Path) -> None:
    corpus = tmp_path / "python.jsonl"
    documents = {"topics.if": "a", "email.header": "b", "http": "c", "zlib": "d"}
    lines = [json.dumps({"name": name, "text": text}) for name, text in documents.items()]
    corpus.write_text("\n".join(lines), encoding="utf-8")
    found = {label: list(documents) for label, documents in python_sections(corpus).items()}
    assert found == {"language": ["topics.if"], "internet": ["email.header", "http"]}
