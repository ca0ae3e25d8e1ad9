"""Run JavaScript under Node with the packages that `make npm` installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = REPOSITORY / "build" / "npm" / "node_modules"
SCRIPTS = Path(__file__).parent / "node"


def node(script: str, value: object) -> Any:
    """Give a script of ``tests/node`` a JSON value; what it answers. Skips where Node is missing.

    Node looks for packages beside a script, so it is copied to where they are.
    """
    if shutil.which("node") is None or not PACKAGES.is_dir():
        pytest.skip("needs Node and `make npm`")
    copy = PACKAGES.parent / script
    shutil.copyfile(SCRIPTS / script, copy)
    answer = subprocess.run(
        ["node", copy.name], input=json.dumps(value), capture_output=True, text=True,
        cwd=PACKAGES.parent,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads(answer.stdout.splitlines()[-1])


def package_version(name: str) -> str:
    """The version of an installed package."""
    if not (PACKAGES / name).is_dir():
        pytest.skip("needs `make npm`")
    return str(json.loads((PACKAGES / name / "package.json").read_text())["version"])
