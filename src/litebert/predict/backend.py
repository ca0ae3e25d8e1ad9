"""The border to a runtime: numpy arrays in, named numpy arrays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

from litebert.common.errors import CheckpointError
from litebert.model.head_table import Head
from litebert.predict.features import FloatArray, ModelInputs

Runtime = Literal["auto", "torch", "onnx"]

BEAM_OUTPUTS = (
    "start_top_log_probs",
    "start_top_index",
    "end_top_log_probs",
    "end_top_index",
    "answer_logits",
)
"""What the paper's SQuAD 2.0 head gives instead of start and end logits."""

_OUTPUTS: Mapping[Head, tuple[str, ...]] = MappingProxyType(
    {
        "encoder": ("pooler_output",),
        "pretraining": ("pooler_output", "masked_logits", "sop_logits"),
        "masked_lm": ("masked_logits",),
        "classification": ("logits",),
        "regression": ("logits",),
        "multiple_choice": ("logits",),
        "token_classification": ("token_logits",),
        "span": ("start_logits", "end_logits"),
        "squad2": BEAM_OUTPUTS,
    }
)

ONNX_FILES = ("model.onnx", "onnx/model.onnx")
"""Where an ONNX model is looked for inside a folder, as Optimum lays it out."""


@dataclass(frozen=True)
class BackendInfo:
    """What a loaded model can do."""

    runtime: str
    """``torch`` or ``onnx``, with its precision: ``torch float32``, ``onnx int8``."""
    head: Head
    """What the model was made for, such as ``pretraining`` or ``classification``."""
    outputs: frozenset[str]
    """Names that :meth:`Backend.run` can compute."""
    max_length: int
    """Longest input in tokens."""
    num_layers: int
    """Layers that run if no depth is asked for."""
    max_depth: int | None
    """Repeats of the shared block that ``depth`` may ask for; None if depth is fixed."""
    pads: bool
    """Whether padding in a batch is computed, so that its inputs should be of nearly one length."""


class Backend(Protocol):
    """A model that runs batches.

    Outputs (float32): ``last_hidden_state`` [B, S, H], ``pooler_output`` [B, H],
    ``masked_logits`` [M, V], ``sop_logits`` [B, 2], ``logits`` [B, C], ``token_logits``
    [B, S, C], ``start_logits`` and ``end_logits`` [B, S], ``hidden_states`` [B, S, blocks + 1, H]
    (the embeddings, then the output of each block), and the beam of the paper's SQuAD 2.0 head.
    """

    @property
    def info(self) -> BackendInfo:
        """What the model can do."""

    def run(self, inputs: ModelInputs, outputs: Sequence[str]) -> dict[str, FloatArray]:
        """Compute the named outputs for one padded batch."""


def outputs_of_head(head: Head) -> frozenset[str]:
    """Return the outputs that a model with this head can compute."""
    return frozenset({"last_hidden_state", "hidden_states", *_OUTPUTS[head]})


def onnx_file(folder: Path) -> Path | None:
    """Return the ONNX file of a model folder, or None."""
    return next((folder / name for name in ONNX_FILES if (folder / name).is_file()), None)


def open_backend(folder: Path, runtime: Runtime = "auto", threads: int | None = None) -> Backend:
    """Load a model folder with the runtime asked for.

    Args:
        folder: a model folder (``model.safetensors``) or an ONNX folder (``model.onnx``).
        runtime: ``auto`` takes the ONNX file if the folder has one, else torch.
        threads: processor threads for one batch; None lets the runtime decide.
    """
    found = onnx_file(folder)
    if runtime == "onnx" and found is None:
        raise CheckpointError(
            f"{folder} holds no model.onnx; make one with `litebert export onnx {folder} OUT`"
        )
    if runtime != "torch" and found is not None:
        from litebert.predict.onnx_backend import OnnxBackend

        return OnnxBackend(folder, found, threads)
    from litebert.predict.torch_backend import TorchBackend

    return TorchBackend(folder, threads)
