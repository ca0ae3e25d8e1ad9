"""The names of `litebert` itself: typed for a user's checker, loaded when they are used."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import litebert

ROOT = Path(__file__).resolve().parents[2]

USER_SCRIPT = """
from pathlib import Path
import litebert

config = litebert.PretrainConfig(
    data=Path("shards"),
    out=Path("run"),
    steps=10,
    model=litebert.ModelSection(preset="albert-tiny", num_layers=2),
    optimizer=litebert.OptimizerConfig(name="adamw"),
)
reveal_type(config.optimizer.lr)
reveal_type(litebert.pretrain(config).model)
reveal_type(litebert.Predictor.load("model"))
litebert.PretrainConfig(data=3, out=Path("run"))
litebert.Predictr
"""

# A user's litebert is installed, so that its own lines are not reported; without torch's types
# the check takes seconds.
MYPY_CONFIG = """
[mypy]
strict = true
[mypy-litebert.*]
ignore_errors = true
[mypy-torch.*,transformers.*]
follow_imports = skip
[mypy-faiss.*]
ignore_missing_imports = true
"""


def test_a_strict_checker_sees_types_and_mistakes(tmp_path: Path) -> None:
    script, config = tmp_path / "script.py", tmp_path / "mypy.ini"
    script.write_text(USER_SCRIPT)
    config.write_text(MYPY_CONFIG)
    # ray is not among the packages of the default tests; without it nothing of it has a type.
    examples = sorted(set((ROOT / "examples").glob("*.py")) - {ROOT / "examples" / "ray_serve.py"})
    command = [sys.executable, "-m", "mypy", "--config-file", str(config)]
    command += ["--cache-dir", str(tmp_path / "cache"), str(script), *map(str, examples)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    *lines, summary = found.stdout.splitlines()
    assert [line.partition("script.py:")[2].partition(":")[2].strip() for line in lines] == [
        'note: Revealed type is "float | None"',
        'note: Revealed type is "pathlib.Path | None"',
        'note: Revealed type is "litebert.predict.predictor.Predictor"',
        'error: Argument "data" to "PretrainConfig" has incompatible type "int"; expected "Path"  [arg-type]',
        'error: Module has no attribute "Predictr"  [attr-defined]',
    ], found.stdout + found.stderr
    assert summary.startswith("Found 2 errors in 1 file")


@pytest.mark.parametrize("name", litebert.__all__)
def test_every_public_name_resolves(name: str) -> None:
    found = getattr(litebert, name)
    assert name in dir(litebert)
    assert name.startswith("__") or found.__name__ == name
    assert name.startswith("__") or found.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'finetuned'"):
        _ = litebert.finetuned  # type: ignore[attr-defined]


def test_the_import_alone_loads_nothing() -> None:
    code = "import litebert, sys; print(sorted(m for m in sys.modules if m.startswith('litebert')))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "['litebert']"


def test_what_checkers_see_is_what_there_is() -> None:
    source = Path(litebert.__file__).read_text(encoding="utf-8")
    checked = {
        (alias.asname, node.module)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("litebert.")
        for alias in node.names
    }
    assert checked == set(litebert._MODULE_OF.items())


def test_examples_import_public_names_alone() -> None:
    for path in (ROOT / "examples").rglob("*.py"):
        assert "from litebert." not in path.read_text(encoding="utf-8"), path


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert f"version: {litebert.__version__}\n" in (ROOT / "CITATION.cff").read_text()
