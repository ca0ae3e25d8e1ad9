"""The file map, docs/files.md, generated from the first docstring line of each module."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "files.md"

# The order in which a newcomer reads: the way of the data.
PACKAGES = (
    "common", "text", "model", "optim", "bundled", "data", "tasks", "dist", "interop", "predict",
    "train", "serve", "report", "experiments", "demo", "commands",
)  # fmt: skip

INTRODUCTION = """# Files

Every module and its one job, in the order of the data. Written by `make map` from the modules'
first docstring lines.
"""


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, empty if it has none."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0] if text else ""


def file_map() -> str:
    """Return the page: a section for each room, a row for each module."""
    root = REPOSITORY / "src" / "litebert"
    sections = [INTRODUCTION, *_rows(root, root)]
    for package in PACKAGES:
        if (root / package / "__init__.py").exists():
            sections += _room(root / package, root)
    return "\n".join(sections) + "\n"


def _room(folder: Path, root: Path) -> list[str]:
    name = folder.relative_to(root).as_posix()
    lines = ["", f"## {name}/", "", first_line(folder / "__init__.py"), *_rows(folder, root)]
    for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
        lines += _room(inner, root)
    return lines


def _rows(folder: Path, root: Path) -> list[str]:
    modules = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("__")]
    if not modules:
        return []
    rows = [f"| `{path.relative_to(root).as_posix()}` | {first_line(path)} |" for path in modules]
    return ["", "| module | job |", "| --- | --- |", *rows]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    if parser.parse_args().write:
        PAGE.write_text(file_map(), encoding="utf-8")
    else:
        print(file_map(), end="")
