"""Run a model folder with torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from litebert.serve.backend import BackendInfo
from litebert.serve.features import FloatArray, ModelInputs

if TYPE_CHECKING:
    from torch import Tensor


class TorchBackend:
    """A model folder loaded with torch, in evaluation mode, on the processor.

    Example:
        >>> backend = TorchBackend(Path("runs/tiny/model"), threads=None)
        >>> backend.run(inputs, ["last_hidden_state"])["last_hidden_state"].shape
    """

    def __init__(self, folder: Path, threads: int | None) -> None:
        import torch

        from litebert.interop.hf import load_model

        if threads is not None:
            torch.set_num_threads(threads)
        self.model = load_model(folder).eval()
        config = self.model.config
        self.info = BackendInfo(
            runtime="torch float32",
            head="pretraining",
            outputs=frozenset({"last_hidden_state", "pooler_output", "masked_logits", "sop_logits"}),
            max_length=config.max_positions,
            max_depth=config.num_layers,
        )

    def run(self, inputs: ModelInputs, outputs: Sequence[str]) -> dict[str, FloatArray]:
        """Compute the named outputs for one padded batch."""
        import torch

        with torch.inference_mode():
            computed = self._forward(inputs, frozenset(outputs))
        return {name: computed[name].float().numpy() for name in outputs}

    def _forward(self, inputs: ModelInputs, outputs: frozenset[str]) -> dict[str, Tensor]:
        import torch

        mask = inputs.attention_mask
        arguments = {
            "input_ids": torch.from_numpy(inputs.input_ids),
            "attention_mask": None if mask is None else torch.from_numpy(mask),
            "token_type_ids": torch.from_numpy(inputs.token_type_ids),
        }
        computed: dict[str, Tensor] = {}
        if outputs & {"masked_logits", "sop_logits"}:
            result = self.model(
                arguments["input_ids"],
                arguments["attention_mask"],
                arguments["token_type_ids"],
                masked_positions=torch.from_numpy(inputs.masked_positions),
                num_layers=inputs.depth,
            )
            computed["masked_logits"] = result.mlm_logits_MV
            computed["sop_logits"] = result.sentence_logits_B2
        return computed
