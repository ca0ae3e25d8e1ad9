"""Run an ONNX folder with onnxruntime; torch is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from litebert.common.errors import CheckpointError, ConfigError, needs
from litebert.interop.folder import ModelFolder
from litebert.interop.onnx.file import OnnxFile
from litebert.interop.onnx.verify import check_eight_bits
from litebert.model.head_table import HEADS, outputs_of_head
from litebert.predict.backend import BackendInfo, check_numbers
from litebert.predict.inputs import PaddedBatch
from litebert.tasks.base import FloatArray

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_STATES = "hidden_states"
_MASKED = "masked_logits"
_CUDA = "CUDAExecutionProvider"


class OnnxBackend:
    """An ONNX model that ``litebert export onnx`` wrote, or one with Optimum's names.

    onnxruntime computes all outputs of a graph whatever is asked for, so the graph is cut to those in use: the logits
    of every position of a masked-word model, say, would cost more memory than the rest together. The hidden states of
    all layers come from a second session, made when they are first asked for.
    """

    def __init__(self, folder: Path, file: Path, threads: int | None, device: str = "cpu") -> None:
        self._path, self._threads, self._device = file, threads, device
        described = ModelFolder(folder)
        head = HEADS[described.head]
        model = OnnxFile(file)
        if model.metadata.get("weight_bits") == "8":
            check_eight_bits(file)
        # What Optimum calls our outputs. It gives the logits of a masked-word model at every
        # position: those at the masks are taken.
        foreign = {output.name: output.foreign_name for output in head.outputs if output.name not in model.outputs}
        self._renamed = {name: other for name, other in foreign.items() if other is not None}
        self._states = [name for name in model.metadata.get(_STATES, "").split(",") if name]
        wanted = outputs_of_head(described.head) - {_STATES}
        self._outputs = sorted(name for name in wanted if self._name(name) in model.outputs)
        self._session = self._open(model.with_outputs([self._name(name) for name in self._outputs]))
        self._path_session: InferenceSession | None = None
        self._widths = {output.name: len(described.labels) for output in head.outputs if output.by_label} | {
            _MASKED: described.config.vocab_size
        }
        self._input_names = {value.name for value in self._session.get_inputs()}
        # An export may be shallower than the model that its config.json describes.
        num_layers = model.metadata.get("num_layers", str(described.config.num_layers))
        if not num_layers.isdecimal() or not 1 <= int(num_layers[:9]) <= 100_000:
            raise CheckpointError(f"{file} says that it runs {num_layers[:20]!r} layers: not a number")
        self.info = BackendInfo(
            runtime=f"onnx {model.metadata.get('precision', 'float32')}",
            head=described.head,
            outputs=frozenset({*self._outputs, *([_STATES] if self._states else [])}),
            max_length=described.config.max_positions,
            num_layers=int(num_layers),
            vocab_size=described.config.vocab_size,
            has_fixed_depth=True,
            pads=True,
        )

    def run(self, batch: PaddedBatch, outputs: Sequence[str], depth: int | None = None) -> dict[str, FloatArray]:
        """Compute the named outputs for one padded batch; the depth is that of the export."""
        assert depth is None, "an ONNX model runs all its layers"
        feeds = self._feeds(batch)
        computed: dict[str, FloatArray] = {}
        names = [name for name in outputs if name != _STATES]
        if names:
            arrays = self._run(self._session, [self._name(name) for name in names], feeds)
            for name, array in zip(names, arrays, strict=True):
                width = self._widths.get(name)
                if width is not None and array.shape[-1:] != (width,):
                    raise CheckpointError(
                        f"{self._path} gives {name} of shape {array.shape}, but its config.json "
                        f"says {width} values; it is of another model"
                    )
                if name == _MASKED and self._name(name) != _MASKED:
                    array = array.reshape(-1, array.shape[-1])[batch.masked_positions]
                computed[name] = np.asarray(array, np.float32)
        if _STATES in outputs:
            if self._path_session is None:
                self._path_session = self._open(OnnxFile(self._path).with_outputs(self._states))
            computed[_STATES] = np.stack(self._run(self._path_session, self._states, feeds), axis=2)
        return check_numbers(computed, self._path)

    def _run(self, session: InferenceSession, names: Sequence[str], feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        try:
            return cast("list[np.ndarray]", session.run(list(names), feeds))
        except Exception as error:  # onnxruntime raises many types of its own
            place, reason = f"fails on {feeds['input_ids'].shape[-1]} tokens", str(error).partition("\n")[0]
            raise CheckpointError(f"{self._path} {place}: {reason}; is its config.json of another model?") from None

    def _feeds(self, batch: PaddedBatch) -> dict[str, np.ndarray]:
        ids, mask = batch.input_ids, batch.attention_mask
        feeds = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids) if mask is None else mask.astype(np.int64),
            "token_type_ids": batch.token_type_ids,
        }
        if HEADS[self.info.head].choices:  # each row is a question of one choice
            feeds = {name: array[:, None] for name, array in feeds.items()}
        if "p_mask" in self._input_names:
            # An embedding forbids nothing.
            feeds["p_mask"] = np.zeros_like(ids) if batch.forbidden is None else batch.forbidden.astype(np.int64)
        return {name: array for name, array in feeds.items() if name in self._input_names}

    def _name(self, name: str) -> str:
        """Return what the file calls an output."""
        return self._renamed.get(name, name)

    def _open(self, model: bytes) -> InferenceSession:
        with needs("onnx", f"running {self._path}", CheckpointError):
            import onnxruntime
        providers = ["CPUExecutionProvider"]
        if self._device != "cpu" and _CUDA in onnxruntime.get_available_providers():
            providers.insert(0, _CUDA)
        elif self._device == "cuda":
            raise ConfigError("onnxruntime finds no GPU here; use --device cpu, or `pip install onnxruntime-gpu`")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # one pattern per shape of a batch: memory without end
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(self._path.parent))
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        try:
            return onnxruntime.InferenceSession(model, options, providers=providers)
        except Exception as error:  # onnxruntime raises many types of its own
            raise CheckpointError(f"{self._path} cannot be run: {str(error).splitlines()[0]}") from None
