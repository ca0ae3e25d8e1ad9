"""Run a model with torch: one loaded from a folder, or one that is being trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from litebert.common.errors import ConfigError
from litebert.dist.runtime import Precision, autocast
from litebert.interop.folder import ModelFolder
from litebert.interop.hf import load_model
from litebert.model.encoder import Encoder, HeadInputs
from litebert.model.head_table import ENCODER_OUTPUTS, Head, head_of_class, outputs_of_head
from litebert.model.heads import TaskModel
from litebert.model.pretraining import PretrainingModel
from litebert.predict.backend import BackendInfo, check_numbers
from litebert.predict.inputs import PaddedBatch
from litebert.tasks.base import FloatArray

_STATES = frozenset(output.name for output in ENCODER_OUTPUTS)


class TorchBackend:
    """A torch model as it is, perhaps in training: run in evaluation mode, left as it was; :meth:`load` reads one."""

    def __init__(self, model: nn.Module, head: Head | None = None, precision: Precision = "float32") -> None:
        """Wrap an encoder with or without a head; ``head`` if it is less than its class can do."""
        head = head or head_of_class(type(model))
        assert head is not None, "the model's class is in the table of heads"
        self.model = cast("Encoder | PretrainingModel | TaskModel", model)
        self.precision = precision
        self.folder: Path | None = None  # of a finished model; one in training may diverge
        self.encoder = model if isinstance(model, Encoder) else cast(Encoder, model.encoder)
        self.device = self.encoder.embeddings.word.weight.device
        config = self.encoder.config
        self.info = BackendInfo(
            runtime="torch float32",
            head=head,
            outputs=outputs_of_head(head),
            max_length=config.max_positions,
            num_layers=config.num_layers,
            vocab_size=config.vocab_size,
            has_fixed_depth=False,
            pads=False,
        )

    @classmethod
    def load(cls, folder: Path, threads: int | None, device: str, packed: bool) -> TorchBackend:
        """Load a model folder; see :func:`open_backend`. On a GPU in bfloat16 where it pays."""
        if threads is not None:
            torch.set_num_threads(threads)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("torch finds no GPU here; use --device cpu, or torch's CUDA build")
        backend = cls(load_model(folder).to(device).eval(), ModelFolder(folder).head, "auto")
        if packed and backend.device.type == "cpu":
            backend.encoder.pack()
        backend.folder = folder
        return backend

    def run(self, batch: PaddedBatch, outputs: Sequence[str], depth: int | None = None) -> dict[str, FloatArray]:
        """Compute the named outputs for one padded batch."""
        was_training = self.model.training
        self.model.eval()
        with torch.inference_mode(), autocast(self.precision, self.device):
            computed = self._compute(batch, frozenset(outputs), depth)
        self.model.train(was_training)
        said = {name: computed[name].cpu().float().numpy() for name in outputs}
        return said if self.folder is None else check_numbers(said, self.folder)

    def _compute(self, batch: PaddedBatch, outputs: frozenset[str], depth: int | None) -> dict[str, Tensor]:
        inputs = head_inputs(batch, self.device, words="masked_logits" in outputs)
        tokens = (inputs.ids_RS, inputs.mask_RS, inputs.segments_RS, depth)
        rows_R = None if outputs <= _STATES else self.model.rows(inputs)
        if rows_R is not None and outputs.isdisjoint(_STATES):
            # What is read at few tokens lets the last block run at these alone: the same numbers.
            return self.model.read(self.encoder.forward_ragged(*tokens, rows_R), inputs)
        computed: dict[str, Tensor] = {}
        if "hidden_states" in outputs:
            encoded = self.encoder(*tokens, return_hidden_states=True)
            sequence_BSH = encoded.sequence_BSH
            if inputs.mask_RS is not None:  # as in a ragged batch: a beam may look at padding
                sequence_BSH = sequence_BSH * inputs.mask_RS[:, :, None]
            computed["hidden_states"] = torch.stack(encoded.hidden_states, dim=2)
        else:
            sequence_BSH = self.encoder.forward_ragged(*tokens)
        computed["last_hidden_state"] = sequence_BSH
        if outputs <= _STATES:
            return computed
        read = sequence_BSH if rows_R is None else sequence_BSH.flatten(0, 1)[rows_R]
        return computed | self.model.read(read, inputs)


def head_inputs(batch: PaddedBatch, device: torch.device, words: bool = True) -> HeadInputs:
    """Return a batch as tensors, None where that spares the model work; without ``words`` no mask is asked about."""

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device)

    return HeadInputs(
        tensor(batch.input_ids),
        None if batch.attention_mask is None else tensor(batch.attention_mask),
        tensor(batch.token_type_ids) if np.any(batch.token_type_ids) else None,
        None if batch.forbidden is None else tensor(batch.forbidden),
        tensor(batch.masked_positions) if words else None,
        batch.num_choices,
    )
