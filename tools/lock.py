"""Write constraints.txt (a version for every package) and requirements.lock (with hashes), with uv.

    python tools/lock.py            # keep the versions that constraints.txt has
    python tools/lock.py --upgrade  # take the newest ones, but torch

The builds of torch differ in hashes and needs (a CPU build needs none of the GPU's packages), so
the lock leaves torch and those packages out: torch comes first, by version, from any index.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CONSTRAINTS, LOCK = REPOSITORY / "constraints.txt", REPOSITORY / "requirements.lock"
LOCKED_EXTRAS = ("train", "data", "serve", "onnx", "plot")
GPU_PACKAGES = re.compile(r"(nvidia|cuda)-|triton==")
HEADS = {
    CONSTRAINTS: "# The version of every package that make installs. Written by `make lock`.\n",
    LOCK: f"""# litebert[{",".join(LOCKED_EXTRAS)}] with hashes, for every platform.
# torch comes first and is not in it, because each of its builds has hashes of its own:
#   pip install torch==TORCH
#   pip install --require-hashes -r requirements.lock
#   pip install --no-deps .
# Written by `make lock`.
""",
}


def compiled(pins: Path, *options: str) -> list[str]:
    """Return uv's answer as blocks: a requirement and, indented below it, its hashes."""
    command = ["uv", "pip", "compile", "pyproject.toml", "--universal", "--python-version", "3.11"]
    quiet = ["--quiet", "--no-header", "--no-annotate", "--constraint", str(pins)]
    answer = subprocess.run([*command, *quiet, *options], cwd=REPOSITORY, text=True, check=True, stdout=subprocess.PIPE)
    blocks = re.split(r"\n(?! )", answer.stdout.strip())
    return [block for block in blocks if not GPU_PACKAGES.match(block)]


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="newest versions, but torch")
    upgrade = parser.parse_args().upgrade
    (torch,) = re.findall(r"(?m)^torch==(\S+)$", CONSTRAINTS.read_text())
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pin:
        pin.write(f"torch=={torch}\n")
        pin.flush()
        blocks = compiled(Path(pin.name) if upgrade else CONSTRAINTS, "--all-extras")
    CONSTRAINTS.write_text(HEADS[CONSTRAINTS] + "\n".join(blocks) + "\n")
    extras = [option for extra in LOCKED_EXTRAS for option in ("--extra", extra)]
    blocks = compiled(CONSTRAINTS, "--generate-hashes", *extras)
    locked = [block for block in blocks if not block.startswith("torch==")]
    LOCK.write_text(HEADS[LOCK].replace("TORCH", torch) + "\n".join(locked) + "\n")


if __name__ == "__main__":
    main()
