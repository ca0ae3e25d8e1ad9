"""Run an ONNX folder with onnxruntime; torch is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from litebert.common.errors import CheckpointError
from litebert.interop.folder import ModelFolder
from litebert.interop.onnx.file import OnnxFile
from litebert.model.head_table import Head
from litebert.predict.backend import BackendInfo, outputs_of_head
from litebert.predict.features import FloatArray, ModelInputs

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_STATES = "hidden_states"
_MASKED = "masked_logits"


class OnnxBackend:
    """An ONNX model that ``litebert export onnx`` wrote, or one with Optimum's names.

    onnxruntime computes all outputs of a graph whatever is asked for, so the graph is cut to those
    in use: the logits of every position of a masked-word model, say, would cost more memory than
    the rest together. The hidden states of all layers come from a second session, made when they
    are first asked for.

    Example:
        >>> backend = OnnxBackend(Path("exported"), Path("exported/model.onnx"), threads=2)
        >>> backend.info.runtime
        'onnx int8'
    """

    def __init__(self, folder: Path, file: Path, threads: int | None) -> None:
        self._path, self._threads = file, threads
        described = ModelFolder(folder)
        model = OnnxFile(file)
        self._renamed = _renamed(described.head, model.outputs)
        self._states = [name for name in model.metadata.get(_STATES, "").split(",") if name]
        wanted = outputs_of_head(described.head) - {_STATES}
        self._outputs = sorted(name for name in wanted if self._name(name) in model.outputs)
        self._session = self._open(model.with_outputs([self._name(name) for name in self._outputs]))
        self._path_session: InferenceSession | None = None
        self._input_names = {value.name for value in self._session.get_inputs()}
        self.info = BackendInfo(
            runtime=f"onnx {model.metadata.get('precision', 'float32')}",
            head=described.head,
            outputs=frozenset({*self._outputs, *([_STATES] if self._states else [])}),
            max_length=described.config.max_positions,
            # An export may be shallower than the model that its config.json describes.
            num_layers=int(model.metadata.get("num_layers", described.config.num_layers)),
            max_depth=None,
            pads=True,
        )

    def run(self, inputs: ModelInputs, outputs: Sequence[str]) -> dict[str, FloatArray]:
        """Compute the named outputs for one padded batch."""
        feeds = self._feeds(inputs)
        computed: dict[str, FloatArray] = {}
        names = [name for name in outputs if name != _STATES]
        if names:
            arrays = self._session.run([self._name(name) for name in names], feeds)
            for name, array in zip(names, arrays, strict=True):
                if name == _MASKED and self._name(name) != _MASKED:
                    array = array.reshape(-1, array.shape[-1])[inputs.masked_positions]
                computed[name] = np.asarray(array, np.float32)
        if _STATES in outputs:
            if self._path_session is None:
                self._path_session = self._open(OnnxFile(self._path).with_outputs(self._states))
            computed[_STATES] = np.stack(self._path_session.run(self._states, feeds), axis=2)
        return computed

    def _feeds(self, inputs: ModelInputs) -> dict[str, np.ndarray]:
        feeds = {
            "input_ids": inputs.input_ids,
            "attention_mask": inputs.full_mask(),
            "token_type_ids": inputs.token_type_ids,
        }
        if self.info.head == "multiple_choice":
            feeds = {name: array[:, None] for name, array in feeds.items()}
        if "p_mask" in self._input_names:
            none = np.zeros_like(inputs.input_ids)  # an embedding forbids nothing
            forbidden = inputs.forbidden
            feeds["p_mask"] = none if forbidden is None else forbidden.astype(np.int64)
        return {name: array for name, array in feeds.items() if name in self._input_names}

    def _name(self, name: str) -> str:
        """Return what the file calls an output."""
        return self._renamed.get(name, name)

    def _open(self, model: bytes) -> InferenceSession:
        try:
            import onnxruntime
        except ModuleNotFoundError:
            raise CheckpointError(
                f"running {self._path} needs `pip install litebert[onnx]`"
            ) from None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # one pattern per shape of a batch: memory without end
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(self._path.parent)
        )
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        try:
            return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises many types of its own
            reason = str(error).splitlines()[0]
            raise CheckpointError(f"{self._path} cannot be run: {reason}") from None


def _renamed(head: Head, outputs: Sequence[str]) -> dict[str, str]:
    """Return which of our outputs Optimum calls ``logits``, where the file has no name of ours.

    Those of a tagger have a row per token; so have those of a masked-word model, of which the rows
    at the masks are taken.
    """
    if head == "token_classification":
        return {"token_logits": "logits"}
    if head in ("masked_lm", "pretraining") and _MASKED not in outputs:
        return {_MASKED: "logits"}
    return {}
