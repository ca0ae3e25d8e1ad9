"""The border to a runtime: numpy arrays in, named numpy arrays out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from litebert.common.config import MOST_PROCESSES
from litebert.common.errors import CheckpointError, ConfigError, InputError, install_command
from litebert.model.head_table import Head
from litebert.predict.batches import fill, pack
from litebert.predict.inputs import PaddedBatch, pad, split
from litebert.tasks.base import Feature, FloatArray, Outputs

Runtime = Literal["auto", "torch", "onnx"]
Device = Literal["auto", "cpu", "cuda"]
Threads = Literal["auto"] | int
"""Threads of the processor; auto: as many as there are cores, in a training as many as help."""

ONNX_FILES = ("model.onnx", "onnx/model.onnx")  # where one is looked for inside a folder, as Optimum lays it out


@dataclass(frozen=True)
class BackendInfo:
    """What a loaded model can do."""

    runtime: str  # torch or onnx, with its precision: "torch float32", "onnx int8"
    head: Head
    outputs: frozenset[str]  # names that `Backend.run` can compute
    max_length: int
    num_layers: int  # those that run if no depth is asked for
    has_fixed_depth: bool  # whether no depth can be asked for
    pads: bool  # whether padding in a batch is computed: its inputs should be of nearly one length
    vocab_size: int  # pieces that it has rows for

    def require(self, outputs: Sequence[str]) -> None:
        """Raise InputError if the model has no head for these outputs."""
        if missing := [name for name in outputs if name not in self.outputs]:
            raise InputError(
                f"this model is for {self.head} and gives no {missing[0]}; "
                "choose a model with the head for this question"
            )


class Backend(Protocol):
    """A model that runs batches; :mod:`litebert.model.head_table` lists the outputs (float32)."""

    @property
    def info(self) -> BackendInfo:
        """What the model can do."""

    def run(self, batch: PaddedBatch, outputs: Sequence[str], depth: int | None = None) -> dict[str, FloatArray]:
        """Compute the named outputs for one padded batch, after ``depth`` layers or all."""


def check_numbers(outputs: dict[str, FloatArray], source: object) -> dict[str, FloatArray]:
    """Return what a model says; a CheckpointError if it says what is not a number."""
    for name, array in outputs.items():
        if not (array < np.inf).all():
            raise CheckpointError(
                f"{source} gives {name} that are not numbers (NaN or infinite): its weights are "
                "damaged, or its training diverged"
            )
    return outputs


def run_batch(
    backend: Backend, features: Sequence[Feature], outputs: Sequence[str], pad_id: int, depth: int | None = None
) -> list[Outputs]:
    """Run features of one row each in one call; what the model says about each."""
    batch, size = pad(features, pad_id), backend.info.vocab_size
    if batch.input_ids.size and batch.input_ids.max() >= size:
        raise CheckpointError(
            f"the tokenizer gave piece {batch.input_ids.max()} to a model of {size} pieces: it is "
            "that of another model; copy the right spiece.model into the folder"
        )
    return split(features, backend.run(batch, outputs, depth))


def run_features(
    backend: Backend,
    features: Sequence[Feature],
    outputs: Sequence[str],
    pad_id: int,
    max_tokens: int,
    depth: int | None = None,
) -> Iterator[tuple[int, Outputs]]:
    """Yield the index of each feature (of one row) with what the model says, batch by batch."""
    backend.info.require(outputs)
    batches = pack if backend.info.pads else fill
    for chosen in batches([len(feature) for feature in features], max_tokens):
        members = [features[index] for index in chosen]
        yield from zip(chosen, run_batch(backend, members, outputs, pad_id, depth), strict=True)


def num_threads(threads: Threads | None) -> int | None:
    """The number that is asked for; None leaves it to the runtime."""
    if threads is None or threads == "auto":
        return None
    if 1 <= threads <= MOST_PROCESSES:
        return threads
    raise ConfigError(f"threads is {threads}: use 1 or more, at most {MOST_PROCESSES:,}, or auto.")


def open_backend(
    folder: Path, runtime: Runtime = "auto", threads: Threads | None = None, *, device: str = "cpu", packed: bool = True
) -> Backend:
    """Load a model folder (``model.safetensors``) or an ONNX folder (``model.onnx``).

    ``auto`` takes the ONNX file if there is one, and a GPU if there is one that the runtime has;
    ``packed`` brings torch's weights into the processor's own order: faster, rounded otherwise.
    """
    found = next((folder / name for name in ONNX_FILES if (folder / name).is_file()), None)
    if runtime == "onnx" and found is None:
        raise CheckpointError(f"{folder} holds no model.onnx; make one with `litebert export onnx {folder} OUT`")
    if runtime != "torch" and found is not None:
        from litebert.predict.onnx_backend import OnnxBackend

        return OnnxBackend(folder, found, num_threads(threads), device)
    try:
        from litebert.predict.torch_backend import TorchBackend
    except ModuleNotFoundError:
        raise CheckpointError(
            f"running {folder} needs torch: {install_command('train')}; or make an ONNX "
            f"folder of it, which does not: `litebert export onnx {folder} OUT`"
        ) from None
    return TorchBackend.load(folder, num_threads(threads), device, packed)
