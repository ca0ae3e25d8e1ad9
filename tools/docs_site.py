"""Hooks of mkdocs (`make docs`): the README is the first page, decisions list themselves.

The class is an extension of griffe, which reads the docstrings.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")
"""A link to a file of the repository: its text and the path."""
_FENCE = re.compile(r"^```(\w+) .*$", re.MULTILINE)
"""The beginning of a block with a word for the tests of the documentation."""
_EXAMPLE = re.compile(r"^>>> .*(?:\n\S.*)*", re.MULTILINE)
_TITLE = re.compile(r"# (\d+):? (.)(.*)")


def on_config(config: Any) -> Any:
    """Add the decisions to the navigation."""
    pages = []
    for path in sorted((REPOSITORY / "docs" / "decisions").glob("*.md")):
        title = _TITLE.match(path.read_text(encoding="utf-8"))
        assert title is not None, f"{path} begins with its number and title"
        name = f"{title[1]} {title[2].upper()}{title[3]}"
        pages.append({name: f"decisions/{path.name}"})
    config["nav"].append({"Decisions": pages})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the first page."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=readme.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Name files that are not pages, in place of a link that leads nowhere on the site."""
    folder = REPOSITORY / "docs" / Path(page.file.src_uri).parent

    def shown(match: re.Match[str]) -> str:
        target = (folder / match[2].partition("#")[0]).resolve()
        is_page = target.is_relative_to(REPOSITORY / "docs") and target.is_file()
        return match[0] if is_page else match[1]

    return _FENCE.sub(r"```\1", _LINK.sub(shown, markdown))


class Examples(griffe.Extension):
    """Shows the examples of docstrings as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give an example the heading that marks it as one."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_as_section, obj.docstring.value)


def _as_section(match: re.Match[str]) -> str:
    return "Examples:\n" + textwrap.indent(match[0], "    ")
