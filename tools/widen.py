"""Make a model twice as wide without changing what it computes, for more training.

A small model that has stopped learning gets room and keeps what it knows (Chen et al. 2016,
"Net2Net"; Chen et al. 2022, "bert2BERT"). A hidden state of the wide model is that of the narrow
one, twice: norms see the same mean and spread, and every head stands there twice. A weight that
reads a state is split at random into two that add up to it, so that the two copies of a unit, equal
at first, have different gradients and part in the first steps.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from litebert.common.files import atomic_folder, read_json, write_json
from litebert.interop.folder import CONFIG_FILE, WEIGHTS_FILE, load_config
from litebert.tasks.base import FloatArray, IntArray

Wide = NDArray[np.float64]

_LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0."
_AXES = {
    "albert.encoder.embedding_hidden_mapping_in": ("hidden", ""),
    "albert.pooler": ("hidden", "hidden"),
    "predictions.dense": ("", "hidden"),
    "sop_classifier.classifier": ("", "hidden"),
    _LAYER + "attention.query": ("hidden", "hidden"),
    _LAYER + "attention.key": ("hidden", "hidden"),
    _LAYER + "attention.value": ("hidden", "hidden"),
    _LAYER + "attention.dense": ("hidden", "hidden"),
    _LAYER + "attention.LayerNorm": ("hidden", ""),
    _LAYER + "ffn": ("inner", "hidden"),
    _LAYER + "ffn_output": ("hidden", "inner"),
    _LAYER + "full_layer_layer_norm": ("hidden", ""),
}
"""Modules that grow: the units they write and, if they are linear maps, those they read."""


def split(weight: Wide, units: IntArray, noise: float, generator: np.random.Generator) -> Wide:
    """Split the columns of a map [out, in] among the copies of each unit that it reads.

    ``units`` has for each wide unit the narrow one that it copies. What is drawn, ``noise`` times
    as wide as the weights, adds up to zero over the copies of a unit.
    """
    of_unit = np.eye(weight.shape[1])[units]  # [wide, narrow]
    copies = of_unit.sum(0)
    drawn = generator.normal(0.0, noise * weight.std(), (len(weight), len(units)))
    drawn -= (drawn @ of_unit / copies)[:, units]
    parts: Wide = (weight / copies)[:, units] + drawn
    return parts


def widened(tensors: Mapping[str, FloatArray], inner: int, noise: float, seed: int) -> dict[str, FloatArray]:
    """Tensors of a model of twice the hidden size with ``inner`` units in its feed-forward."""
    generator = np.random.default_rng(seed)
    narrow_inner, hidden = tensors[_LAYER + "ffn.weight"].shape
    units = {"hidden": np.tile(np.arange(hidden), 2), "inner": np.resize(np.arange(narrow_inner), inner)}
    wide: dict[str, FloatArray] = {}
    for name, tensor in tensors.items():
        written, read = _AXES.get(name.rsplit(".", 1)[0], ("", ""))
        values: Wide = tensor.astype(np.float64)
        if read and values.ndim == 2:
            # Each copy of what is written has a split of its own.
            values = values[units[written]] if written else values
            values = split(values, units[read], noise, generator)
        elif written:
            values = values[units[written]]
        wide[name] = values.astype(np.float32)
    return wide


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="model folder whose layers share one block")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--intermediate-size", type=int, help="default: twice the model's")
    parser.add_argument("--noise", type=float, default=0.5, help="of the splits, in their deviation")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with atomic_folder(options.out) as folder:
        shutil.copytree(options.model, folder, dirs_exist_ok=True)
        shape = load_config(folder)
        inner: int = options.intermediate_size or 2 * shape.ffn
        sizes = {"hidden_size": 2 * shape.hidden_size, "num_attention_heads": 2 * shape.heads}
        config = read_json(folder / CONFIG_FILE) | sizes | {"intermediate_size": inner}
        write_json(folder / CONFIG_FILE, config)
        wide = widened(load_file(folder / WEIGHTS_FILE), inner, options.noise, options.seed)
        save_file(wide, folder / WEIGHTS_FILE, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
