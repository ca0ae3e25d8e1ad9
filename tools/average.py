"""Average the weights of model folders of one shape: a model, and what it became by more training.

    python tools/average.py BEFORE AFTER OUT

Where the second was trained on from the first, the mean often keeps what either knows. A folder that is named twice
counts twice. OUT gets the last one's files, and its heads as they are where the others have none (or have others): name
a fine-tuned model first and the one that it began as last.
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


def _encoder(tensors: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what every head reads: all but the pooler."""
    parts = ("embeddings.", "encoder.")
    return {name: tensor.shape for name, tensor in tensors.items() if name.removeprefix("albert.").startswith(parts)}


def average(folders: list[Path], out: Path) -> None:
    """Write a folder with the mean of all weights, computed in float32, in the last folder's precision."""
    *others, last = (load_file(folder / WEIGHTS_FILE) for folder in folders)
    if any(_encoder(tensors) != _encoder(last) for tensors in others):
        raise CheckpointError(f"{', '.join(map(str, folders))} differ in the names or shapes of their weights")
    means = {
        name: np.mean([tensors[name].astype(np.float32) for tensors in (*others, last)], axis=0).astype(tensor.dtype)
        if all(name in tensors and tensors[name].shape == tensor.shape for tensors in others)
        else tensor
        for name, tensor in last.items()
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
