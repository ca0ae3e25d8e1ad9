"""Text that every Python installation carries: documentation topics and library docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from litebert.common.files import write_json_lines
from litebert.common.progress import progress

# Their docstrings are tables, test fixtures or third-party code rather than prose.
_SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
_SKIPPED_FOLDERS |= {"__pycache__", "pydoc_data", "encodings", "turtledemo", "ensurepip"}
_CODE_MARKERS = (">>>", "::=", "***", "===", "---", "+-")
_MIN_WORDS = 5
_MIN_LETTER_SHARE = 0.72


def write_corpus(path: Path) -> None:
    """Write all of it (1.6 MB for CPython 3.11) as JSON lines, a document a line: its ``name`` and its ``text``."""
    with progress("reading the standard library", unit="documents") as bar:

        def records() -> Iterator[dict[str, str]]:
            for name, paragraphs in chain(topics(), library()):
                yield {"name": name, "text": "\n".join(paragraphs)}
                bar.advance()

        write_json_lines(path, records())


def topics() -> Iterator[tuple[str, list[str]]]:
    """Yield ``(topics.NAME, paragraphs)`` of the language reference that `help()` shows."""
    from pydoc_data.topics import topics as texts

    for name in sorted(texts):
        if paragraphs := _prose(texts[name]):
            yield f"topics.{name}", paragraphs


def library() -> Iterator[tuple[str, list[str]]]:
    """Yield ``(module name, paragraphs)`` for the docstrings of each standard-library module."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if not _SKIPPED_FOLDERS.isdisjoint(relative.parts[:-1]):
            continue
        if paragraphs := [line for text in _docstrings(path) for line in _prose(text)]:
            yield ".".join(relative.with_suffix("").parts).removesuffix(".__init__"), paragraphs


def _docstrings(path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old modules hold invalid escape sequences
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def _prose(text: str) -> list[str]:
    """Return the paragraphs of a documentation text that read like sentences, each on one line."""
    found = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        is_indented = all(line.startswith("  ") for line in part.splitlines())
        if is_indented or any(marker in part for marker in _CODE_MARKERS):
            continue
        words = part.split()
        paragraph = " ".join(words)
        letters = sum(map(str.isalpha, paragraph))
        if len(words) >= _MIN_WORDS and letters >= _MIN_LETTER_SHARE * len(paragraph):
            found.append(paragraph)
    return found
