"""Text that every Python installation carries: documentation topics and library docstrings."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sysconfig
import warnings
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

# Their docstrings are tables, test fixtures or third-party code rather than prose.
_SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
_SKIPPED_FOLDERS |= {"__pycache__", "pydoc_data", "encodings", "turtledemo", "ensurepip"}
_MIN_WORDS = 5
_MIN_LETTER_SHARE = 0.72

TOPICS = "topics"
"""What the names of topics begin with, as if the reference were a package."""

Document = list[str]
"""Paragraphs of prose, each on one line."""


def topics() -> Iterator[Document]:
    """Yield the language reference that `help()` shows, one document per topic."""
    for _, document in named_topics():
        yield document


def named_topics() -> Iterator[tuple[str, Document]]:
    """Yield ``(topic, paragraphs)`` of the language reference."""
    from pydoc_data.topics import topics as texts

    for name in sorted(texts):
        document = prose(texts[name])
        if document:
            yield name, document


def library() -> Iterator[tuple[str, Document]]:
    """Yield ``(module name, paragraphs)`` for the docstrings of each standard-library module."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if _SKIPPED_FOLDERS.isdisjoint(relative.parts[:-1]):
            document = [line for text in _docstrings(path) for line in prose(text)]
            if document:
                yield ".".join(relative.with_suffix("").parts).removesuffix(".__init__"), document


def prose(text: str) -> Document:
    """Return the paragraphs of a documentation text that read like sentences."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text))
    joined = (" ".join(block.split()) for block in blocks if not _is_code(block))
    return [paragraph for paragraph in joined if _is_prose(paragraph)]


def write_corpus(folder: Path) -> Path:
    """Write all of it as JSON lines, a document a line: its ``name`` and its ``text``.

    Topics of the language reference are called ``topics.NAME``, modules by their own name.

    Returns:
        The path of the file, ``folder/python.jsonl`` (about 1.6 MB for CPython 3.11).
    """
    from litebert.common.files import atomic_path
    from litebert.common.progress import progress

    path = folder / "python.jsonl"
    with (
        progress("reading the standard library", unit="documents") as bar,
        atomic_path(path) as temporary,
        temporary.open("w", encoding="utf-8") as stream,
    ):
        documents = ((f"{TOPICS}.{name}", document) for name, document in named_topics())
        for name, document in chain(documents, library()):
            record = {"name": name, "text": "\n".join(document)}
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            bar.advance()
    return path


def _docstrings(path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old modules hold invalid escape sequences
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield text


def _is_code(block: str) -> bool:
    lines = block.splitlines()
    return all(line.startswith("  ") for line in lines) or any(
        marker in block for marker in (">>>", "::=", "***", "===", "---", "+-")
    )


def _is_prose(paragraph: str) -> bool:
    letters = sum(character.isalpha() for character in paragraph)
    return len(paragraph.split()) >= _MIN_WORDS and letters >= _MIN_LETTER_SHARE * len(paragraph)
