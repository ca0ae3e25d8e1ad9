"""Average the weights of model folders of one shape: a model, and what it became by more training.

    python tools/average.py BEFORE AFTER OUT

Where the second was trained on from the first, the mean often keeps what either knows. A folder that is named twice
counts twice. OUT gets the last one's files.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from litebert.common.errors import CheckpointError
from litebert.common.files import atomic_folder
from litebert.interop.folder import WEIGHTS_FILE


def average(folders: list[Path], out: Path) -> None:
    """Write a folder with the mean of all weights, computed in float32, in the last folder's precision."""
    found = [load_file(folder / WEIGHTS_FILE) for folder in folders]
    shapes = [{name: tensor.shape for name, tensor in tensors.items()} for tensors in found]
    if any(shape != shapes[0] for shape in shapes):
        raise CheckpointError(f"{', '.join(map(str, folders))} differ in the names or shapes of their weights")
    means = {
        name: np.mean([tensors[name].astype(np.float32) for tensors in found], axis=0).astype(last.dtype)
        for name, last in found[-1].items()
    }
    with atomic_folder(out) as temporary:
        shutil.copytree(folders[-1], temporary, dirs_exist_ok=True)
        save_file(means, temporary / WEIGHTS_FILE, metadata={"format": "pt"})


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="model folders")
    parser.add_argument("out", type=Path, help="folder to write")
    options = parser.parse_args()
    average(options.folders, options.out)


if __name__ == "__main__":
    main()
