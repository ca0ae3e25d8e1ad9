"""The README's file map, generated from the first docstring line of each module."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
README = REPOSITORY / "README.md"
BEGIN, END = "<!-- file map: make map -->", "<!-- end of file map -->"

# The order in which a newcomer reads: the way of the data.
PACKAGES = (
    "common", "text", "model", "optim", "bundled", "data", "tasks", "dist", "interop", "train",
    "serve", "report", "experiments", "commands",
)  # fmt: skip


def first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0] if text else ""


def file_map() -> str:
    """Return the map as a fenced block, one line a module."""
    root = REPOSITORY / "src" / "litebert"
    lines = ["```text", "src/litebert/"]
    files = [p for p in sorted(root.glob("*.py")) if not p.name.startswith("__")]
    lines += [f"  {path.name:<24} {first_line(path)}" for path in files]
    for package in PACKAGES:
        folder = root / package
        if not (folder / "__init__.py").exists():
            continue
        lines.append(f"  {package + '/':<24} {first_line(folder / '__init__.py')}")
        modules = [p for p in sorted(folder.glob("*.py")) if not p.name.startswith("__")]
        lines += [f"    {path.name:<22} {first_line(path)}" for path in modules]
    return "\n".join([*lines, "```"])


def with_map(readme: str) -> str:
    """Return the README with its file map brought up to date."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{file_map()}\n{END}{after}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="update README.md")
    if parser.parse_args().write:
        README.write_text(with_map(README.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(file_map())
