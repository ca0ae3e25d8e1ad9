"""Run a model folder with torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from litebert.common.errors import CheckpointError
from litebert.interop.folder import ModelFolder
from litebert.predict.backend import BEAM_OUTPUTS, BackendInfo, outputs_of_head
from litebert.predict.features import FloatArray, ModelInputs

if TYPE_CHECKING:
    from torch import Tensor, nn

    from litebert.model.encoder import Encoder

_POOLED = frozenset({"pooler_output", "sop_logits", "logits"})
"""Outputs that read nothing but the first token."""


class TorchBackend:
    """A model folder loaded with torch, in evaluation mode, on the processor.

    Example:
        >>> backend = TorchBackend(Path("runs/tiny/model"), threads=None)
        >>> backend.run(inputs, ["last_hidden_state"])["last_hidden_state"].shape
    """

    def __init__(self, folder: Path, threads: int | None) -> None:
        try:
            import torch
        except ModuleNotFoundError:
            raise CheckpointError(
                f"running {folder} needs torch: `pip install litebert[train]`; or make an ONNX "
                f"folder of it, which does not: `litebert export onnx {folder} OUT`"
            ) from None
        from litebert.interop.hf import load_model

        if threads is not None:
            torch.set_num_threads(threads)
        described = ModelFolder(folder)
        self.model = load_model(folder)
        encoder = self.model if described.head == "encoder" else _part(self.model, "encoder")
        self.encoder = cast("Encoder", encoder)
        self.encoder.pack()
        self.info = BackendInfo(
            runtime="torch float32",
            head=described.head,
            outputs=outputs_of_head(described.head),
            max_length=described.config.max_positions,
            num_layers=described.config.num_layers,
            max_depth=described.config.num_layers,
            pads=False,
        )

    def run(self, inputs: ModelInputs, outputs: Sequence[str]) -> dict[str, FloatArray]:
        """Compute the named outputs for one padded batch."""
        import torch

        with torch.inference_mode():
            computed = self._compute(inputs, frozenset(outputs))
        return {name: computed[name].numpy().astype(np.float32, copy=False) for name in outputs}

    def _compute(self, inputs: ModelInputs, outputs: frozenset[str]) -> dict[str, Tensor]:
        import torch

        from litebert.model.encoder import first_rows

        if not outputs.isdisjoint(BEAM_OUTPUTS):
            beam = self._beam(inputs)
            others = outputs - beam.keys()
            return beam | self._compute(inputs, others) if others else beam
        padded = _padded(inputs)
        masks_M = torch.from_numpy(inputs.masked_positions)
        # What is read at few tokens lets the last block run at these alone: the same numbers.
        if outputs <= _POOLED:
            firsts_B = first_rows(torch.from_numpy(inputs.input_ids))
            return self._pooled(self.encoder.forward_ragged(*padded, firsts_B), outputs)
        if outputs == {"masked_logits"}:
            return {"masked_logits": self._words(self.encoder.forward_ragged(*padded, masks_M))}
        computed: dict[str, Tensor] = {}
        if "hidden_states" in outputs:
            encoded = self.encoder(*padded, return_hidden_states=True)
            sequence_BSH = encoded.sequence_BSH
            computed["hidden_states"] = torch.stack(encoded.hidden_states, dim=2)
        else:
            sequence_BSH = self.encoder.forward_ragged(*padded)
        computed["last_hidden_state"] = sequence_BSH
        if outputs & _POOLED:
            computed |= self._pooled(sequence_BSH[:, 0], outputs)
        if "masked_logits" in outputs:
            hidden_MH = sequence_BSH.flatten(0, 1).index_select(0, masks_M)
            computed["masked_logits"] = self._words(hidden_MH)
        if "token_logits" in outputs:
            computed["token_logits"] = _part(self.model, "classifier")(sequence_BSH)
        if outputs & {"start_logits", "end_logits"}:
            start_BS, end_BS = _part(self.model, "span")(sequence_BSH).unbind(-1)
            computed |= {"start_logits": start_BS, "end_logits": end_BS}
        return computed

    def _beam(self, inputs: ModelInputs) -> dict[str, Tensor]:
        """Run the paper's SQuAD 2.0 head."""
        import torch

        assert inputs.forbidden is not None, "span features say where no answer may be"
        ids, mask, types, depth = _padded(inputs)
        forbidden = torch.from_numpy(inputs.forbidden)
        beam = self.model(ids, mask, types, p_mask=forbidden, num_layers=depth)
        return {name.rsplit("_", 1)[0]: value for name, value in beam._asdict().items()}

    def _pooled(self, first_BH: Tensor, outputs: frozenset[str]) -> dict[str, Tensor]:
        """Apply the parts of the head that read the first token."""
        pooled_BH = self.encoder.pool_first(first_BH)
        computed = {"pooler_output": pooled_BH}
        if "sop_logits" in outputs:
            computed["sop_logits"] = _part(self.model, "sentence")(pooled_BH)
        if "logits" in outputs:
            computed["logits"] = _part(self.model, "classifier")(pooled_BH)
        return computed

    def _words(self, hidden_MH: Tensor) -> Tensor:
        """Return the logits of every word at the masks; [M, V]."""
        import torch

        head = _part(self.model, "mlm")
        table_VE = self.encoder.get_parameter("embeddings.word.weight")
        return torch.nn.functional.linear(head(hidden_MH), table_VE, head.get_parameter("bias"))


def _padded(inputs: ModelInputs) -> tuple[Tensor, Tensor | None, Tensor, int | None]:
    """Return what an encoder is called with."""
    import torch

    mask = None if inputs.attention_mask is None else torch.from_numpy(inputs.attention_mask)
    ids, types = torch.from_numpy(inputs.input_ids), torch.from_numpy(inputs.token_type_ids)
    return ids, mask, types, inputs.depth


def _part(model: nn.Module, name: str) -> nn.Module:
    return model.get_submodule(name)
