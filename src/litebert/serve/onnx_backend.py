"""Run an ONNX folder with onnxruntime; torch is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from litebert.common.errors import CheckpointError
from litebert.interop.folder import ModelFolder
from litebert.serve.backend import BackendInfo, outputs_of_head
from litebert.serve.features import FloatArray, ModelInputs


class OnnxBackend:
    """An ONNX model that ``litebert export onnx`` wrote, or one with Optimum's names.

    Example:
        >>> backend = OnnxBackend(Path("exported"), Path("exported/model.onnx"), threads=2)
        >>> backend.info.runtime
        'onnx int8'
    """

    def __init__(self, folder: Path, file: Path, threads: int | None) -> None:
        try:
            import onnxruntime
        except ModuleNotFoundError:
            raise CheckpointError(f"running {file} needs `pip install litebert[onnx]`") from None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self.session = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime raises many types of its own
            reason = str(error).splitlines()[0]
            raise CheckpointError(f"{file} is cut or not an ONNX model: {reason}") from None
        # Only what leads to the outputs asked for is computed: fill-mask never pays for the
        # logits of every position, nor anything for the layer path.
        self.run_options = onnxruntime.RunOptions()
        self.run_options.only_execute_path_to_fetches = True
        self.run_options.log_severity_level = 3
        described = ModelFolder(folder)
        metadata = self.session.get_modelmeta().custom_metadata_map
        present = {output.name for output in self.session.get_outputs()}
        # What Optimum calls logits is one row per token here.
        self.renamed = (
            {"token_logits": "logits"} if described.head == "token_classification" else {}
        )
        wanted = outputs_of_head(described.head)
        self.info = BackendInfo(
            runtime=f"onnx {metadata.get('precision', 'float32')}",
            head=described.head,
            outputs=frozenset(name for name in wanted if self.renamed.get(name, name) in present),
            max_length=described.config.max_positions,
            max_depth=None,
        )
        self.input_names = {value.name for value in self.session.get_inputs()}

    def run(self, inputs: ModelInputs, outputs: Sequence[str]) -> dict[str, FloatArray]:
        """Compute the named outputs for one padded batch."""
        feeds = {
            "input_ids": inputs.input_ids,
            "attention_mask": inputs.full_mask(),
            "token_type_ids": inputs.token_type_ids,
        }
        if self.info.head == "multiple_choice":
            feeds = {name: array[:, None] for name, array in feeds.items()}
        if "p_mask" in self.input_names:
            none = np.zeros_like(inputs.input_ids)  # an embedding forbids nothing
            forbidden = inputs.forbidden
            feeds["p_mask"] = none if forbidden is None else forbidden.astype(np.int64)
        feeds = {name: array for name, array in feeds.items() if name in self.input_names}
        names = [self.renamed.get(name, name) for name in outputs]
        computed = self.session.run(names, feeds, self.run_options)
        return {
            name: np.asarray(array, np.float32)
            for name, array in zip(outputs, computed, strict=True)
        }
