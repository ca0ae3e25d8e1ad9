"""Export a model folder to ONNX: built from the weights, verified, whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from litebert.common.errors import CheckpointError
from litebert.common.files import atomic_folder
from litebert.interop.folder import CONFIG_FILE, TOKENIZER_FILES, ModelFolder
from litebert.interop.names import POOLER, Head
from litebert.interop.onnx_graph import Array, Float32, Precision
from litebert.interop.onnx_int8 import Int8
from litebert.interop.onnx_model import ModelGraph
from litebert.interop.reference import ReferenceInputs, ReferenceModel
from litebert.model.config import ModelConfig

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

MODEL_FILE = "model.onnx"

FLOAT_TOLERANCE = 1e-4
"""Largest difference to the float64 reference, relative to the output's largest value or 1."""
INT8_TOLERANCE = 0.25
"""Largest root-mean-square error of an int8 output, relative to its root mean square or 0.1."""

_LARGEST_PROTOBUF_BYTES = 1_900_000_000  # a file of 2 GiB or more cannot be parsed
_DEFAULT_MASK_ID = 4

PrecisionName = Literal["float32", "int8"]


@dataclass(frozen=True)
class OnnxReport:
    """What an export wrote and how exact it is.

    Example:
        >>> report = export_onnx("runs/base/model", "exported", int8=True)
        >>> report.file_bytes / report.weight_bytes
        1.002
    """

    path: Path
    """the folder"""
    head: Head
    """the model's head"""
    precision: PrecisionName
    """float32 or int8"""
    num_layers: int
    """layers that run"""
    file_bytes: int
    """size of model.onnx, with its external data if any"""
    weight_bytes: int
    """bytes of the stored tensors"""
    num_integer_matmuls: int
    """products of integers in the graph"""
    largest_difference: float
    """over several shapes: see FLOAT_TOLERANCE and INT8_TOLERANCE"""
    shapes: tuple[tuple[int, int], ...]
    """(batch, length) of the verified inputs"""


def export_onnx(
    source: Path | str,
    out: Path | str,
    *,
    int8: bool = False,
    depth: int | None = None,
    accept: Callable[[Path], None] | None = None,
) -> OnnxReport:
    """Write ``model.onnx`` with its config and tokenizer to a new folder.

    Args:
        source: a model folder or hub name.
        out: the new folder; must be absent or empty.
        int8: store matrices and tables as int8 and multiply integers.
        depth: layers to run, for a model whose layers share all parameters.
        accept: called with the finished folder before it gets its name; raises to refuse it.
    """
    folder = ModelFolder(source)
    head = folder.head
    parameters = _parameters(folder, head)
    precision: Precision = Int8() if int8 else Float32()
    builder = ModelGraph(folder.config, parameters, precision, _mask_id(folder.path), depth)
    model = builder.build(head)
    count = num_nodes(model.graph, "MatMulInteger")
    expected = _num_products(folder.config, parameters, head, builder.plan.num_layers)
    expected = expected if int8 else 0
    assert count == expected, f"{count} integer products in the graph, expected {expected}"
    with atomic_folder(out) as temporary:
        weight_bytes = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
        _write(model, temporary / MODEL_FILE, weight_bytes)
        _copy_beside(folder.path, temporary)
        largest, shapes = verify(temporary / MODEL_FILE, folder.config, parameters, head, depth)
        tolerance = INT8_TOLERANCE if int8 else FLOAT_TOLERANCE
        if not largest <= tolerance:
            raise CheckpointError(
                f"the exported model differs from the weights by {largest:.2g} (allowed "
                f"{tolerance:g}), so nothing was written; "
                + ("try without --int8" if int8 else "please report this with the config.json")
            )
        if accept is not None:
            accept(temporary)
        file_bytes = sum(path.stat().st_size for path in temporary.glob(MODEL_FILE + "*"))
    return OnnxReport(
        path=Path(out),
        head=head,
        precision="int8" if int8 else "float32",
        num_layers=builder.plan.num_layers,
        file_bytes=file_bytes,
        weight_bytes=weight_bytes,
        num_integer_matmuls=count,
        largest_difference=largest,
        shapes=shapes,
    )


def num_nodes(graph: GraphProto, kind: str) -> int:
    """Count the nodes of one operator."""
    return sum(node.op_type == kind for node in graph.node)


def verify(
    path: Path,
    config: ModelConfig,
    parameters: Mapping[str, Array],
    head: Head,
    depth: int | None = None,
) -> tuple[float, tuple[tuple[int, int], ...]]:
    """Compare an ONNX file with the numpy reference over several shapes.

    Returns:
        The largest difference (float32: of any value, relative to the output's largest value or
        1; int8: root mean squares, relative to the output's own or 0.1) and the shapes.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    is_int8 = session.get_modelmeta().custom_metadata_map["precision"] == "int8"
    reference = ReferenceModel(config, parameters, depth)
    largest, shapes = 0.0, []
    for inputs in _check_inputs(config):
        shapes.append(inputs.input_ids_BS.shape)
        expected = reference.outputs(head, inputs)
        computed = dict(
            zip(expected, session.run(list(expected), _feeds(head, inputs)), strict=True)
        )
        keep = inputs.attention_mask_BS.astype(bool)
        for name, wanted in expected.items():
            got = computed[name].astype(np.float64).reshape(wanted.shape)
            if name in ("last_hidden_state", "start_logits", "end_logits") or wanted.ndim == 3:
                got, wanted = got[keep], wanted[keep]  # what stands at padding is nobody's business
            if is_int8:
                difference = _root_mean_square(got - wanted) / max(0.1, _root_mean_square(wanted))
            else:
                difference = float(np.abs(got - wanted).max() / max(1.0, np.abs(wanted).max()))
            largest = max(largest, difference if difference == difference else float("inf"))
    return largest, tuple(shapes)


def _root_mean_square(values: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt((values**2).mean()))


def _check_inputs(config: ModelConfig) -> Iterator[ReferenceInputs]:
    """Yield random batches: one token, one text, several with padding, the longest length."""
    generator = np.random.default_rng(0)
    longest = config.max_positions
    for batch, length in ((1, 1), (1, 7), (3, 24), (2, min(64, longest)), (1, min(129, longest))):
        length = min(length, longest)
        ids = generator.integers(0, config.vocab_size, (batch, length))
        lengths = generator.integers(max(1, length // 2), length + 1, (batch, 1))
        lengths[0] = length
        mask = (np.arange(length) < lengths).astype(np.int64)
        types = np.minimum(np.arange(length) * 2 // length, config.type_vocab_size - 1)
        yield ReferenceInputs(ids, mask, np.broadcast_to(types, ids.shape).astype(np.int64))


def _feeds(head: Head, inputs: ReferenceInputs) -> dict[str, Array]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    feeds: dict[str, Array] = dict(zip(names, inputs, strict=True))
    if head == "multiple_choice":
        return {name: array[:, None] for name, array in feeds.items()}
    if head == "squad2":
        feeds["p_mask"] = np.zeros_like(inputs.input_ids_BS)
    return feeds


def _parameters(folder: ModelFolder, head: Head) -> dict[str, Array]:
    found = folder.parameters(head)
    # A bare encoder is useful without its pooler; other missing parts are not made up.
    optional = set(POOLER) if head in ("encoder", "masked_lm", "span", "squad2") else set()
    optional |= set(POOLER) if head == "token_classification" else set()
    missing = [name for name in found.missing if name not in optional]
    if missing:
        raise CheckpointError(
            f"{folder.path} lacks {missing[0]} ({len(missing)} tensors in all); "
            "export a folder that litebert or transformers saved whole"
        )
    return found.found


def _mask_id(folder: Path) -> int:
    from litebert.text.tokenizer import MODEL_FILE as SENTENCEPIECE_FILE
    from litebert.text.tokenizer import Tokenizer

    if not (folder / SENTENCEPIECE_FILE).is_file():
        return _DEFAULT_MASK_ID
    return Tokenizer.load(folder).mask_id


def _num_products(
    config: ModelConfig, parameters: Mapping[str, Array], head: Head, num_layers: int
) -> int:
    """How many products with a weight matrix the graph of a model must have."""
    blocks = num_layers * config.inner_group_num
    count = 4 * blocks + config.has_projection
    extra: dict[Head, int] = {
        "encoder": int(POOLER[0] in parameters),
        "pretraining": 1 + 2 * 2,  # pooler; transform and decoder at all and at masked positions
        "masked_lm": 2 * 2,
        "classification": 1,
        "regression": 1,
        "multiple_choice": 1,
        "token_classification": 0,
        "span": 0,
        "squad2": 3,
    }
    return count + extra[head]


def _write(model: ModelProto, path: Path, weight_bytes: int) -> None:
    import onnx

    if weight_bytes < _LARGEST_PROTOBUF_BYTES:
        onnx.save_model(model, path)
        return
    onnx.save_model(
        model, path, save_as_external_data=True, location=f"{MODEL_FILE}_data", size_threshold=1024
    )


def _copy_beside(source: Path, target: Path) -> None:
    for name in (CONFIG_FILE, "README.md", *TOKENIZER_FILES):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
