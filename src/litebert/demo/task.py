"""A labelled task cut from any text: which part does a sentence come from?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import READ_ERRORS, atomic_folder, open_binary, write_json, write_json_lines
from litebert.common.rows import read_rows
from litebert.data.corpus.layouts import TextLayout, documents_between_blank_lines, lines_of, paragraphs_of
from litebert.data.corpus.sources import find_inputs, format_of
from litebert.text.sentences import split_sentences

MAX_LABELS = 6
# Most sentences of a label: labels cost work and text does not, so few are used; and no label
# outweighs the others. One with fewer than the least is left out.
MAX_TRAIN, MAX_DEV = 200, 150
MIN_TRAIN, MIN_DEV = 40, 10
_DEV_SHARE, _LARGEST_DEV_SHARE = 0.2, 0.4
_WORDS = range(6, 60)  # shorter sentences say too little, longer ones are not sentences
# Read of each file, and of all: a demo needs no more, and memory stays bounded.
_FILE_BYTES, _MAX_ROWS, _MAX_FILES = 1 << 20, 5_000, 400

# Only modules whose subject their own words give away; the others belong to no part.
PYTHON_SECTIONS = {
    "language": "topics",
    "windows": "tkinter turtle",
    "internet": "email http urllib smtplib imaplib poplib ftplib nntplib telnetlib mailbox xmlrpc "
    "wsgiref cgi socketserver socket ssl",
    "concurrency": "asyncio multiprocessing threading concurrent subprocess queue sched selectors",
    "testing": "unittest doctest pdb bdb traceback trace profile cProfile pstats timeit cgitb",
    "packaging": "distutils importlib pkgutil zipimport venv modulefinder site runpy",
}

_TASK_FILE = """# Which part of the text does a sentence come from?
name = "parts"
kind = "classification"
labels = {labels}
max_length = 64

[files]
train = "train.jsonl"
dev = "dev.jsonl"

[columns]
text = "text"
label = "part"
"""

Sections = dict[str, dict[str, list[str]]]
"""The sentences of each document of each part; a part is a label."""
Row = tuple[str, str]
"""A document's name and one of its sentences."""


@dataclass(frozen=True)
class CutTask:
    """What was cut; ``cut.json`` of the task's folder."""

    labels: tuple[str, ...] = ()
    train: tuple[int, ...] = ()
    """sentences of each label"""
    dev: tuple[int, ...] = ()
    train_documents: int = 0
    dev_documents: int = 0
    reason: str = ""
    """why there is no task; empty if there is one"""


def cut_task(parts: Sections, folder: Path) -> CutTask:
    """Write ``train.jsonl``, ``dev.jsonl``, ``task.toml`` and ``cut.json``, whole or not at all.

    Nothing of dev is seen in training: its documents are others, and a sentence that occurs twice
    is used once. Only a part of one single document is divided inside it, dev being its end.
    """
    seen: set[str] = set()
    splits = [(label, *_split(documents, seen)) for label, documents in parts.items()]
    usable = [s for s in splits if len(s[1]) >= MIN_TRAIN and len(s[2]) >= MIN_DEV]
    chosen = sorted(usable, key=lambda split: -len(split[1]))[:MAX_LABELS]
    with atomic_folder(folder, replace=True) as temporary:
        if len(chosen) < 2:
            task = CutTask(reason=_reason(len(parts), len(usable)))
        else:
            labels, train_rows, dev_rows = zip(*chosen, strict=True)
            train, train_documents = _write_rows(temporary / "train.jsonl", labels, train_rows, MAX_TRAIN)
            dev, dev_documents = _write_rows(temporary / "dev.jsonl", labels, dev_rows, MAX_DEV)
            # A JSON list of strings is also one of TOML.
            text = _TASK_FILE.format(labels=json.dumps(labels, ensure_ascii=False))
            (temporary / "task.toml").write_text(text, encoding="utf-8")
            task = CutTask(labels, train, dev, train_documents, dev_documents)
        write_json(temporary / "cut.json", asdict(task))
    return task


def python_sections(corpus: Path) -> Sections:
    """Return the parts of Python's documentation, as ``write_corpus`` wrote it."""
    label_of = {name: label for label, names in PYTHON_SECTIONS.items() for name in names.split()}
    parts: Sections = {label: {} for label in PYTHON_SECTIONS}
    for _, row in read_rows(corpus):
        name = str(row["name"])
        if label := label_of.get(name.partition(".")[0]):
            parts[label][name] = _sentences(str(row["text"]).splitlines())
    return {label: documents for label, documents in parts.items() if documents}


def corpus_sections(corpus: Path, skip: Path) -> Sections:
    """Return the parts of a user's text: its folders, else files, else documents; never ``skip``, the output."""
    found = find_inputs([corpus], "train", "auto", "en", skip)[0]
    files = found.files[:: max(1, len(found.files) // _MAX_FILES)]
    parts: Sections = {}
    folders = {path.relative_to(corpus).parts[:-1][:1] for path in files}
    by_folder = len(folders) > 1 and () not in folders
    for path in files:
        name = path.relative_to(corpus).as_posix()
        for number, sentences in enumerate(_documents(path, found.layout), start=1):
            if len(files) == 1:
                beginning = " ".join(" ".join(sentences[:1]).split()[:4])
                label, document = f"{number} {beginning}", str(number)
            elif by_folder:  # the unit that is held out is a file
                label, document = name.partition("/")[0], name
            else:
                label, document = name, f"{name}:{number}"
            parts.setdefault(label, {}).setdefault(document, []).extend(sentences)
    return parts


def _documents(path: Path, layout: TextLayout | None) -> Iterator[list[str]]:
    """Yield the documents of the beginning of a file as sentences."""
    try:
        if format_of(path) != "text":
            for _, row in islice(read_rows(path), _MAX_ROWS):
                yield _sentences(paragraphs_of(str(row.get("text") or "")))
            return
        with open_binary(path) as stream:
            text = stream.read(_FILE_BYTES).decode("utf-8", errors="ignore")
    except (DataError, *READ_ERRORS):
        return  # `prepare` has reported what is wrong with it
    if layout == "files":
        yield _sentences(paragraphs_of(text))
        return
    for lines in documents_between_blank_lines(lines_of(text)):
        yield lines if layout == "sentences" else _sentences(lines)


def _sentences(paragraphs: Iterable[str]) -> list[str]:
    return [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]


def _reason(num_parts: int, num_usable: int) -> str:
    if num_parts < 2:
        return "the text is one document, so there are no parts to tell apart"
    found = f"{'only one' if num_usable else 'none'} has {MIN_TRAIN + MIN_DEV} different sentences or more"
    return f"of {num_parts:,} parts {found}; a few larger files or folders would do"


def _split(documents: dict[str, list[str]], seen: set[str]) -> tuple[list[Row], list[Row]]:
    """Return the rows of training and of dev."""
    new = {name: _new_sentences(sentences, seen) for name, sentences in documents.items()}
    rows = [(name, sentence) for name, sentences in new.items() for sentence in sentences]
    for_dev, num_dev = set[str](), 0
    filled = [name for name in new if new[name]]
    for name in sorted(filled, key=lambda name: blake2b(name.encode(), digest_size=8).digest()):
        fits = num_dev + len(new[name]) <= _LARGEST_DEV_SHARE * len(rows)
        if num_dev < _DEV_SHARE * len(rows) and fits:
            for_dev.add(name)
            num_dev += len(new[name])
    if not for_dev and len(filled) == 1:
        end = round((1 - _DEV_SHARE) * len(rows))
        return rows[:end], rows[end:]
    return [row for row in rows if row[0] not in for_dev], [row for row in rows if row[0] in for_dev]


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


def _write_rows(
    path: Path, labels: Sequence[str], rows: Sequence[Sequence[Row]], most: int
) -> tuple[tuple[int, ...], int]:
    """Write at most ``most`` rows of each label, evenly spread; how many, and from how many documents they come."""
    counts = tuple(min(len(found), most) for found in rows)
    lines = []
    for label, found, count in zip(labels, rows, counts, strict=True):
        for number in range(count):
            document, sentence = found[number * len(found) // count]
            lines.append({"text": sentence, "part": label, "document": document})
    write_json_lines(path, lines)
    return counts, len({line["document"] for line in lines})
