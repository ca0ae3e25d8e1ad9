"""Text that every Python installation carries: documentation topics and library docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

# Their docstrings are tables, test fixtures or third-party code rather than prose.
_SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
_SKIPPED_FOLDERS |= {"__pycache__", "pydoc_data", "encodings", "turtledemo", "ensurepip"}
_MIN_WORDS = 5
_MIN_LETTER_SHARE = 0.72

Document = list[str]
"""Paragraphs of prose, each on one line."""


def topics() -> Iterator[Document]:
    """Yield the language reference that `help()` shows, one document per topic."""
    from pydoc_data.topics import topics as texts

    for name in sorted(texts):
        document = prose(texts[name])
        if document:
            yield document


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
    """Write all of it as one file, a paragraph a line and a blank line between documents.

    Returns:
        The path of the file, ``folder/python.txt`` (about 1.6 MB for CPython 3.11).
    """
    from litebert.common.files import write_text

    documents = [*topics(), *(document for _, document in library())]
    path = folder / "python.txt"
    write_text(path, "\n\n".join("\n".join(document) for document in documents) + "\n")
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
