"""The wheel works without the repository: installed alone, it runs the demo, masks and a server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKED = ("pyproject.toml", "README.md", "LICENSE", "src")

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    answer = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=cwd, env=environment)
    assert answer.returncode == 0, f"{answer.stdout}\n{answer.stderr}"
    return answer.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the sources, so that no leftover of an older build gets in."""
    pytest.importorskip("build", reason="needs `pip install build`")
    source = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in PACKED:
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=ignored)
        else:
            shutil.copyfile(path, source / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """An environment with the wheel and, behind it, the dependencies that are already here.

    A path file adds the folder of dependencies to the search path but does not run the path files
    inside it: the editable installation of the repository stays invisible.
    """
    home = tmp_path_factory.mktemp("environment") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python"]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=home.parent)
    return home / "bin"


def test_the_wheel_carries_what_is_no_code(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "litebert/py.typed" in names
    assert "litebert/configs/pretrain/tiny.toml" in names
    assert "litebert/serve/static/index.html" in names
    modules = {path.relative_to(REPOSITORY / "src").as_posix()
               for path in (REPOSITORY / "src" / "litebert").rglob("*.py")}  # fmt: skip
    assert modules <= set(names)
    bundled = REPOSITORY / "src" / "litebert" / "bundled" / "model"
    for path in bundled.glob("*"):
        assert f"litebert/bundled/model/{path.name}" in names


def test_demo_masks_and_server_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import litebert; print(litebert.__file__)"
    where = Path(run(installed / "python", "-c", code, cwd=tmp_path).strip())
    assert installed.parent in where.parents
    # The demo starts the server of its own interpreter and asks it over HTTP.
    said = run(installed / "litebert", "demo", "--steps", "3", "--out", "demo", cwd=tmp_path)
    assert "the server ended with status 0" in said
    text = "return a new [MASK] with the same elements."
    model = "demo/pretrain/model"
    assert run(installed / "litebert", "fill-mask", "--model", model, text, cwd=tmp_path)


def test_the_bundled_model_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    folder = installed.parent.glob("lib/python*/site-packages/litebert/bundled/model/config.json")
    if not list(folder):
        pytest.skip("no weights are bundled yet")
    assert run(installed / "litebert", "fill-mask", "the [MASK] of the town.", cwd=tmp_path)
    code = (
        "from pathlib import Path; from litebert.demo.pipeline import ask_server; "
        "print(ask_server(Path('bundled'), '/fill-mask', {'text': 'a [MASK].'})['exit_status'])"
    )
    assert run(installed / "python", "-c", code, cwd=tmp_path).strip() == "0"
