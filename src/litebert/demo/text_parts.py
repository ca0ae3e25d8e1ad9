"""The parts of a text that a labelled task can tell apart: groups of modules, folders, files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import READ_ERRORS, open_binary
from litebert.common.rows import read_rows
from litebert.data.corpus.layouts import (
    TextLayout,
    documents_between_blank_lines,
    lines_of,
    paragraphs_of,
)
from litebert.data.corpus.sources import find_inputs, format_of
from litebert.demo.python_text import TOPICS
from litebert.text.sentences import split_sentences

_FILE_BYTES = 1 << 20
"""Read of each file: a demo needs no more, and memory stays bounded."""
_MAX_FILES = 400
_MAX_ROWS = 5_000

# Only modules whose subject their own words give away; the others belong to no part.
PYTHON_PARTS: dict[str, tuple[str, ...]] = {
    "language": (TOPICS,),
    "windows": ("tkinter", "turtle"),
    "internet": (
        "email", "http", "urllib", "smtplib", "imaplib", "poplib", "ftplib", "nntplib",
        "telnetlib", "mailbox", "xmlrpc", "wsgiref", "cgi", "socketserver", "socket", "ssl",
    ),
    "concurrency": (
        "asyncio", "multiprocessing", "threading", "concurrent", "subprocess", "queue", "sched",
        "selectors",
    ),
    "testing": (
        "unittest", "doctest", "pdb", "bdb", "traceback", "trace", "profile", "cProfile",
        "pstats", "timeit", "cgitb",
    ),
    "packaging": (
        "distutils", "importlib", "pkgutil", "zipimport", "venv", "modulefinder", "site", "runpy",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A label and the documents behind it, each a name and its sentences.

    Example:
        >>> Part("novels", (("emma.txt", ("Emma Woodhouse was handsome.",)),)).label
        'novels'
    """

    label: str
    documents: tuple[tuple[str, tuple[str, ...]], ...]


def python_parts(corpus: Path) -> list[Part]:
    """Return the parts of Python's documentation, as ``write_corpus`` wrote it."""
    label_of = {name: label for label, names in PYTHON_PARTS.items() for name in names}
    documents: defaultdict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for _, row in read_rows(corpus):
        name = str(row["name"])
        package = name.partition(".")[0]
        if package in label_of:
            sentences = tuple(_sentences(str(row["text"]).splitlines()))
            documents[label_of[package]].append((name, sentences))
    return [Part(label, tuple(documents[label])) for label in PYTHON_PARTS if label in documents]


def corpus_parts(corpus: Path, skip: Path) -> list[Part]:
    """Return the parts of a user's text: its folders, else its files, else its documents.

    Args:
        corpus: a file or a folder.
        skip: the output folder, never taken as input.
    """
    found = find_inputs([corpus], "train", "auto", "en", skip)[0]
    files = found.files[:: max(1, len(found.files) // _MAX_FILES)]
    if len(files) == 1:
        documents = list(_documents(files[0], found.layout))
        return [
            Part(f"{number} {_beginning(sentences)}", ((str(number), sentences),))
            for number, sentences in enumerate(documents, start=1)
        ]
    top_folders = {path.relative_to(corpus).parts[0] for path in files}
    by_folder = len(top_folders) > 1 and all((corpus / name).is_dir() for name in top_folders)
    grouped: defaultdict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for path in files:
        relative = path.relative_to(corpus)
        label = relative.parts[0] if by_folder else relative.as_posix()
        for number, sentences in enumerate(_documents(path, found.layout), start=1):
            name = relative.as_posix() if by_folder else f"{relative.as_posix()}:{number}"
            grouped[label].append((name, sentences))
    return [Part(label, _joined(documents)) for label, documents in grouped.items()]


def _joined(
    documents: list[tuple[str, tuple[str, ...]]],
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Join documents of one name: in a folder the unit that is held out is a file."""
    joined: defaultdict[str, list[str]] = defaultdict(list)
    for name, sentences in documents:
        joined[name].extend(sentences)
    return tuple((name, tuple(sentences)) for name, sentences in joined.items())


def _documents(path: Path, layout: TextLayout | None) -> Iterator[tuple[str, ...]]:
    """Yield the documents of the beginning of a file as sentences."""
    if format_of(path) != "text":
        try:
            for _, row in islice(read_rows(path), _MAX_ROWS):
                yield tuple(_sentences(paragraphs_of(str(row.get("text") or ""))))
        except DataError:
            return  # `prepare` has reported what is wrong with it
        return
    try:
        with open_binary(path) as stream:
            text = stream.read(_FILE_BYTES).decode("utf-8", errors="ignore")
    except READ_ERRORS:
        return  # reported by `prepare` too
    if layout == "files":
        yield tuple(_sentences(paragraphs_of(text)))
        return
    for lines in documents_between_blank_lines(lines_of(text)):
        yield tuple(lines) if layout == "sentences" else tuple(_sentences(lines))


def _sentences(paragraphs: list[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield from split_sentences(paragraph)


def _beginning(sentences: tuple[str, ...]) -> str:
    return " ".join(" ".join(sentences[:1]).split()[:4])
