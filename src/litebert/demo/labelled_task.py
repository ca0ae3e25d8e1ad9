"""A labelled task cut from any text: which part does a sentence come from?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.common.files import atomic_folder, write_json
from litebert.demo.text_parts import Part

MAX_LABELS = 6
MAX_TRAIN, MAX_DEV = 200, 150
"""Most sentences of a label: labels are dear and text is cheap, so few of them are used; and no
label outweighs the others."""
MIN_TRAIN, MIN_DEV = 40, 10
"""A label with fewer sentences is left out."""
_DEV_SHARE = 0.2
_LARGEST_DEV_SHARE = 0.4
_WORDS = range(6, 60)
"""Shorter sentences say too little, longer ones are no sentences."""


@dataclass(frozen=True)
class LabelledTask:
    """What was cut; ``cut.json`` of the task's folder.

    Example:
        >>> task = cut_task([Part("a", (("a.txt", sentences),)), ...], Path("task"))
        >>> task.labels
        ('a', 'b')
    """

    labels: tuple[str, ...] = ()
    train: tuple[int, ...] = ()
    """sentences of each label to learn from"""
    dev: tuple[int, ...] = ()
    """sentences of each label to score"""
    train_documents: int = 0
    dev_documents: int = 0
    reason: str = ""
    """why there is no task; empty if there is one"""


@dataclass(frozen=True)
class _Split:
    label: str
    train: tuple[tuple[str, str], ...]
    """(document, sentence)"""
    dev: tuple[tuple[str, str], ...]

    @property
    def is_large_enough(self) -> bool:
        return len(self.train) >= MIN_TRAIN and len(self.dev) >= MIN_DEV


def cut_task(parts: Iterable[Part], folder: Path, name: str = "parts") -> LabelledTask:
    """Write ``train.jsonl``, ``dev.jsonl``, ``task.toml`` and ``cut.json``, whole or not at all.

    Documents of dev are others than those of training, and a sentence that occurs twice is used
    once, so nothing of dev was seen in training. Only a part of one single document is divided
    inside it: its beginning trains, its end is dev.

    Args:
        parts: the labels with their documents.
        folder: the folder to write.
        name: the task's name.
    """
    seen: set[str] = set()
    splits = [_split(part, seen) for part in parts]
    usable = sorted((s for s in splits if s.is_large_enough), key=lambda s: -len(s.train))
    chosen = usable[:MAX_LABELS]
    with atomic_folder(folder, replace=True) as temporary:
        if len(chosen) < 2:
            task = LabelledTask(reason=_reason(len(splits), len(usable)))
        else:
            train = [_spread(split.train, MAX_TRAIN) for split in chosen]
            dev = [_spread(split.dev, MAX_DEV) for split in chosen]
            labels = tuple(split.label for split in chosen)
            _write_rows(temporary / "train.jsonl", labels, train)
            _write_rows(temporary / "dev.jsonl", labels, dev)
            _write_task_file(temporary / "task.toml", name, labels)
            task = LabelledTask(
                labels,
                tuple(map(len, train)),
                tuple(map(len, dev)),
                len({document for rows in train for document, _ in rows}),
                len({document for rows in dev for document, _ in rows}),
            )
        write_json(temporary / "cut.json", task.__dict__)
    return task


def _reason(num_parts: int, num_usable: int) -> str:
    if num_parts < 2:
        return "the text is one document, so there are no parts to tell apart"
    found = "none has" if num_usable == 0 else "only one has"
    return (
        f"of {num_parts:,} parts {found} {MIN_TRAIN + MIN_DEV} different sentences or more; "
        "a few larger files or folders would do"
    )


def _split(part: Part, seen: set[str]) -> _Split:
    documents = [(name, _new_sentences(sentences, seen)) for name, sentences in part.documents]
    documents = [(name, sentences) for name, sentences in documents if sentences]
    total = sum(len(sentences) for _, sentences in documents)
    for_dev: set[str] = set()
    num_dev = 0
    for name, sentences in sorted(documents, key=lambda document: _hash(document[0])):
        fits = num_dev + len(sentences) <= _LARGEST_DEV_SHARE * total
        if num_dev < _DEV_SHARE * total and fits:
            for_dev.add(name)
            num_dev += len(sentences)
    if not for_dev and len(documents) == 1:
        (name, sentences) = documents[0]
        end = round((1 - _DEV_SHARE) * total)
        return _Split(
            part.label, tuple((name, s) for s in sentences[:end]),
            tuple((name, s) for s in sentences[end:]),
        )  # fmt: skip
    rows = [(name, sentence) for name, sentences in documents for sentence in sentences]
    return _Split(
        part.label,
        tuple(row for row in rows if row[0] not in for_dev),
        tuple(row for row in rows if row[0] in for_dev),
    )


def _new_sentences(sentences: Sequence[str], seen: set[str]) -> list[str]:
    """Return the sentences of a usable length that did not occur before, and remember them."""
    found = []
    for sentence in sentences:
        words = sentence.lower().split()
        key = " ".join(words)
        if len(words) in _WORDS and key not in seen:
            seen.add(key)
            found.append(sentence)
    return found


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def _spread(rows: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Return at most so many rows, evenly spread."""
    count = min(len(rows), most)
    return [rows[number * len(rows) // count] for number in range(count)]


def _write_rows(
    path: Path, labels: Sequence[str], rows_by_label: Sequence[Sequence[tuple[str, str]]]
) -> None:
    rows = [
        {"text": sentence, "part": label, "document": document}
        for label, rows in zip(labels, rows_by_label, strict=True)
        for document, sentence in rows
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_task_file(path: Path, name: str, labels: Sequence[str]) -> None:
    # A JSON string is also a TOML string.
    names = ", ".join(json.dumps(label, ensure_ascii=False) for label in labels)
    path.write_text(
        f"""# Which part of the text does a sentence come from?
name = {json.dumps(name)}
kind = "classification"
labels = [{names}]
max_length = 64

[files]
train = "train.jsonl"
dev = "dev.jsonl"

[columns]
text = "text"
label = "part"
""",
        encoding="utf-8",
    )
