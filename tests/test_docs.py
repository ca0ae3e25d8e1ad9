"""The documentation is true: its map, its links, its commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from file_map import README, REPOSITORY, with_map
from litebert.cli import COMMANDS

PAGES = [
    *sorted(REPOSITORY.glob("*.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(path: Path, language: str) -> list[tuple[str, str]]:
    """Return (words after the language, content) of each fenced block of a language."""
    found = BLOCK.findall(path.read_text(encoding="utf-8"))
    return [(info.strip(), content) for kind, info, content in found if kind == language]


def commands(path: Path) -> list[str]:
    """Return the shell commands of a page, continuation lines joined."""
    lines = [
        line
        for _, content in blocks(path, "bash")
        for line in content.replace("\\\n", " ").splitlines()
    ]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def test_the_file_map_is_true() -> None:
    readme = README.read_text(encoding="utf-8")
    assert readme == with_map(readme), "run `make map`"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_litebert_commands_in_the_docs_exist(page: Path) -> None:
    known = {command.replace(".", " ") for command in COMMANDS}
    for line in commands(page):
        words = shlex.split(line, comments=True)
        if words and words[0] == "litebert":
            assert words[1] in known or " ".join(words[1:3]) in known or words[1] == "--help", line


@pytest.mark.slow
def test_readme_commands_run(tmp_path: Path) -> None:
    """Run the README's bash blocks in order, as a newcomer would, but for `make` itself."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for info, content in blocks(README, "bash"):
        if "no-test" in info or "make " in content:
            continue
        answer = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", content],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "REPOSITORY": str(REPOSITORY)},
            capture_output=True,
            text=True,
        )
        assert answer.returncode == 0, f"{content}\n{answer.stderr}"


@pytest.mark.slow
def test_readme_python_runs(tmp_path: Path) -> None:
    """Run the README's Python blocks after the demo made what they open."""
    demo = [sys.executable, "-m", "litebert", "demo", "--out", "demo", "--steps", "20"]
    subprocess.run(demo, cwd=tmp_path, check=True)
    for info, content in blocks(README, "python"):
        if "no-test" not in info:
            subprocess.run([sys.executable, "-c", content], cwd=tmp_path, check=True)
