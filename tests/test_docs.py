"""The documentation is true: its map, its links, its commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from file_map import PAGE, REPOSITORY, file_map

import litebert
from litebert.cli import COMMANDS, build_app

README = REPOSITORY / "README.md"
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
RUN_PAGES = [page for page in PAGES if "```bash run\n" in page.read_text(encoding="utf-8")]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(path: Path, language: str) -> list[tuple[str, str]]:
    """Return (words after the language, content) of each fenced block of a language."""
    found = BLOCK.findall(path.read_text(encoding="utf-8"))
    return [(info.strip(), content) for kind, info, content in found if kind == language]


def commands(path: Path) -> list[str]:
    """Return the shell commands of a page, continuation lines joined."""
    lines = [line for _, content in blocks(path, "bash") for line in content.replace("\\\n", " ").splitlines()]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def test_the_file_map_is_true() -> None:
    assert PAGE.read_text(encoding="utf-8") == file_map(), "run `make map`"


def test_the_tests_that_vouch_for_reliability_exist() -> None:
    page = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+\.py)`", page))
    assert len(named) > 20
    assert named <= {path.name for path in (REPOSITORY / "tests").rglob("test_*.py")}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_lines_of_prose_are_short(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 160 and not line.lstrip().startswith("|")] == []


def test_the_site_has_every_page_and_every_public_name() -> None:
    site = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {path.name for path in (REPOSITORY / "docs").glob("*.md")}
    assert set(re.findall(r": ([\w-]+\.md)$", site, re.MULTILINE)) == {*pages, "index.md"}
    shown = re.findall(r"^::: litebert\.(\w+)$", (REPOSITORY / "docs" / "api.md").read_text(), re.M)
    assert sorted(shown) == sorted(set(litebert.__all__) - {"__version__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def litebert_calls(page: Path) -> list[list[str]]:
    """Return the words behind `litebert` of every command on a page, in shell and in prose."""
    names = "|".join(sorted({name.replace(".", " ") for name in COMMANDS}, reverse=True))
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    prose = re.findall(r"`((?:litebert|torchrun) [^`]+)`", text)
    prose += [f"litebert {call}" for call in re.findall(rf"`((?:{names}) --[^`]+)`", text)]
    calls = []
    for line in commands(page) + prose:
        # Quoted texts and JSON are arguments, not flags; pipes and `&` begin another command.
        for command in re.split(r"\s(?:\||&|&&|>)\s?", re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", line)):
            words = shlex.split(command.replace("'", ""), comments=True)
            if "litebert" in words:
                calls.append(words[words.index("litebert") + 1 :])
    return calls


@cache
def flags_of(command: str) -> frozenset[str]:
    """Return every flag that a command takes."""
    words = command.split(".")
    app = build_app(words)
    default = app.default_parameter
    for word in words:
        app = app[word]
    arguments = app.assemble_argument_collection(default_parameter=default)
    names = {name for one in arguments for name in (*one.names, *one.negatives)}
    return frozenset(name for name in names if name.startswith("--"))


def problem_of(words: list[str]) -> str | None:
    """Return what is wrong with a call: an unknown command or flag."""
    if not words or words[0].startswith("-") or words[0].isupper():
        return None
    command = ".".join(words[:2]) if ".".join(words[:2]) in COMMANDS else words[0]
    if command not in COMMANDS:
        groups = {name.partition(".")[0] for name in COMMANDS if "." in name}
        return None if words[0] in groups and len(words) == 1 else f"no command {words[0]}"
    for word in words:
        flag = word.partition("=")[0].removesuffix(".*")  # `--examples.*` is a whole section
        if flag.startswith("--") and flag not in {*flags_of(command), "--help"}:
            return f"{command} has no {flag}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_commands_and_flags_in_the_docs_exist(page: Path) -> None:
    problems = {f"litebert {' '.join(call)}": problem_of(call) for call in litebert_calls(page)}
    assert not {call: problem for call, problem in problems.items() if problem}


def test_a_wrong_flag_is_noticed() -> None:
    assert problem_of(["pretrain", "--data", "shards", "--optimizer.rate", "1"])
    assert problem_of(["pretrian"])
    assert problem_of(["pretrain", "--data", "shards", "--examples.mask.no-whole-words"]) is None


def run_block(content: str, folder: Path) -> None:
    """Run a block of shell commands in a folder, with this environment's programs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", content],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, f"{content}\n{answer.stdout}\n{answer.stderr}"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `litebert demo` has run, very short."""
    folder = tmp_path_factory.mktemp("docs")
    run_block("litebert demo --steps 20", folder)
    return folder


@pytest.mark.slow
def test_readme_commands_run(tmp_path: Path) -> None:
    """Run the README's bash blocks in order, as a newcomer would, but for `make` itself."""
    for info, content in blocks(README, "bash"):
        if "no-test" not in info:
            run_block(content, tmp_path)


@pytest.mark.slow
def test_readme_python_runs(demo: Path, tmp_path: Path) -> None:
    """Run the README's Python blocks after the demo made what they open."""
    shutil.copytree(demo, tmp_path, dirs_exist_ok=True)
    for info, content in blocks(README, "python"):
        if "no-test" not in info:
            subprocess.run([sys.executable, "-c", content], cwd=tmp_path, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda p: p.name)
def test_blocks_marked_run_do(page: Path, demo: Path, tmp_path: Path) -> None:
    """A page's blocks that say `bash run` work where the demo has run."""
    shutil.copytree(demo, tmp_path, dirs_exist_ok=True)
    for info, content in blocks(page, "bash"):
        if info == "run":
            run_block(content, tmp_path)


JOB_PAGES = (
    "prepare", "pretrain", "fine-tune", "deploy", "many-machines", "reproduce-the-paper", "migrate"
)  # fmt: skip


@pytest.mark.parametrize("name", JOB_PAGES)
def test_a_page_begins_with_a_command_and_ends_with_what_can_go_wrong(name: str) -> None:
    text = (REPOSITORY / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert "```bash" in text.partition("\n## ")[0], "a command before the first section"
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert headings[-1] == "What can go wrong"


def test_the_readme_names_every_page_and_command() -> None:
    readme = README.read_text(encoding="utf-8")
    for page in sorted((REPOSITORY / "docs").glob("*.md")):
        assert f"docs/{page.name}" in readme
    for command in COMMANDS:
        assert command.partition(".")[0] in readme


def test_the_readme_is_short_and_begins_with_the_installation() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.encode()) <= 12 * 1024
    assert any("pip install" in line for line in text.splitlines()[:40])


def test_the_readme_names_every_room() -> None:
    rooms = {path.parent.name for path in (REPOSITORY / "src" / "litebert").glob("*/__init__.py")}
    named = re.findall(r"^    (\w+) {2,}", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert rooms == set(named)
