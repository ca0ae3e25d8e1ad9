"""Give positions that a model never learned the pattern of those that it did.

A model whose heads began at neighbours and which was trained on short inputs alone knows its first
positions only: the others still hold the waves they began as, and long inputs are read badly. The
learned positions are fitted by the short waves among these (least squares with a ridge), and the
fit goes on where they end. It is a start for more training, not a replacement of it.
"""

from __future__ import annotations

import argparse
import math
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from litebert.common.files import atomic_folder
from litebert.interop.folder import WEIGHTS_FILE
from litebert.tasks.base import FloatArray
from litebert.train.pretraining.initial import wave_numbers

NAME = "albert.embeddings.position_embeddings.weight"
LONGEST_WAVE_TOKENS = 12.0
"""Longer ones cannot be told apart by a hundred positions: held-out positions are fitted worse."""
RIDGE = 10.0


def refitted(positions: FloatArray, learned: int) -> FloatArray:
    """Positions [P, E] whose first ``learned`` stay, and the others continue their pattern."""
    places = np.arange(len(positions))
    waves = [w for w in wave_numbers(positions.shape[1] // 2).tolist() if 2 * math.pi / w <= LONGEST_WAVE_TOKENS]
    columns = [f(wave * places) for wave in waves for f in (np.cos, np.sin)]
    features = np.stack([*columns, np.ones(len(places))], axis=1)
    known = slice(2, learned)  # the first two are those of [CLS] and of what follows it
    ridge = RIDGE * np.eye(features.shape[1])
    ridge[-1, -1] = 0.0
    own = features[known]
    fit = np.linalg.solve(own.T @ own + ridge, own.T @ positions[known].astype(np.float64))
    return np.concatenate((positions[:learned], (features @ fit)[learned:].astype(positions.dtype)))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="model folder")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--learned", type=int, default=126, help="positions that were trained")
    options = parser.parse_args()
    with atomic_folder(options.out) as folder:
        shutil.copytree(options.model, folder, dirs_exist_ok=True)
        tensors = load_file(folder / WEIGHTS_FILE)
        tensors[NAME] = refitted(tensors[NAME], options.learned)
        save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
