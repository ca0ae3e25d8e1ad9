"""Export a model folder to ONNX: built from the weights, verified, whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from litebert.common.errors import CheckpointError
from litebert.common.files import atomic_folder, write_text
from litebert.interop.card import CARD_FILE, onnx_card
from litebert.interop.folder import CONFIG_FILE, Array, ModelFolder
from litebert.interop.names import POOLER
from litebert.interop.onnx.verify import check_eight_bits, verify_export
from litebert.interop.pooling import VectorRule
from litebert.model.config import TASK_FILE, Pooling
from litebert.model.head_table import HEADS, Head
from litebert.text.folder import copy_tokenizer
from litebert.text.tokenizer import Tokenizer, has_tokenizer

MODEL_FILE = "model.onnx"

_LARGEST_PROTOBUF_BYTES = 1_900_000_000  # a file of 2 GiB or more cannot be parsed
_DEFAULT_MASK_ID = 4

Int8Bits = Literal[7, 8]


@dataclass(frozen=True)
class OnnxReport:
    """What an export wrote and how exact it is."""

    path: Path
    head: Head
    precision: str
    num_layers: int
    file_bytes: int  # size of model.onnx, with its external data if any
    weight_bytes: int  # bytes of the stored tensors
    num_integer_matmuls: int  # products of integers in the graph
    difference: float  # to the weights' own arithmetic, see :class:`Verification`
    shapes: tuple[tuple[int, int], ...]  # (batch, length) of the verified inputs


def export_onnx(
    source: Path | str,
    out: Path | str,
    *,
    int8: bool = False,
    int8_bits: Int8Bits = 7,
    depth: int | None = None,
    pooling: Pooling | None = None,
    accept: Callable[[Path], None] | None = None,
) -> OnnxReport:
    """Write ``model.onnx`` with its config and tokenizer to a new folder.

    Args:
        source: a model folder, a run folder or a hub name.
        out: the new folder; must be absent or empty.
        int8: store matrices and tables as int8 and multiply integers.
        int8_bits: 8 uses the whole range of a byte, which only processors with VNNI add rightly.
        depth: layers to run, for a model whose layers share all parameters.
        pooling: how sentence-transformers makes one vector of a text; by default as the source says, else the mean.
        accept: called with the finished folder before it gets its name; raises to refuse it.
    """
    import onnx

    from litebert.interop.onnx.graph import Int8, Precision
    from litebert.interop.onnx.model import ModelGraph

    folder = ModelFolder(source)
    head = folder.head
    parameters = _parameters(folder, head)
    if int8 and int8_bits == 8:
        check_eight_bits(Path(out))
    precision = Int8(int8_bits) if int8 else Precision()
    has_pieces = has_tokenizer(folder.path)
    mask_id = Tokenizer.load(folder.path).mask_id if has_pieces else _DEFAULT_MASK_ID
    builder = ModelGraph(folder.config, parameters, precision, mask_id, depth)
    num_layers = builder.plan.num_layers
    model = builder.build(head)
    weight_bytes = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    with atomic_folder(out) as temporary:
        onnx.save_model(
            model,
            temporary / MODEL_FILE,
            save_as_external_data=weight_bytes >= _LARGEST_PROTOBUF_BYTES,
            location=f"{MODEL_FILE}_data",
        )
        for name in (CONFIG_FILE, TASK_FILE):
            if (folder.path / name).is_file():
                shutil.copyfile(folder.path / name, temporary / name)
        if has_pieces:
            copy_tokenizer(folder.path, temporary)
        shown = (Path(out).name, precision.name, num_layers)
        write_text(temporary / CARD_FILE, onnx_card(folder.config, head, *shown, folder.card))
        if HEADS[head].pretrained:
            rule = VectorRule.read(folder.path) or VectorRule()
            rule = rule if pooling is None else replace(rule, pooling=pooling)
            rule.write(temporary, folder.config.hidden_size, folder.config.max_positions)
        checked = verify_export(temporary / MODEL_FILE, folder.config, parameters, head, depth)
        if not checked.passed:
            problem = f"differs from the weights by {checked.difference:.2g} (allowed {checked.tolerance:g})"
            remedy = "try without --int8" if int8 else "please report this with the config.json"
            raise CheckpointError(f"the exported model {problem}, so nothing was written; {remedy}")
        if accept is not None:
            accept(temporary)
        file_bytes = sum(path.stat().st_size for path in temporary.glob(MODEL_FILE + "*"))
    return OnnxReport(
        path=Path(out),
        head=head,
        precision=precision.name,
        num_layers=num_layers,
        file_bytes=file_bytes,
        weight_bytes=weight_bytes,
        num_integer_matmuls=sum(node.op_type == "MatMulInteger" for node in model.graph.node),
        difference=checked.difference,
        shapes=checked.shapes,
    )


def _parameters(folder: ModelFolder, head: Head) -> dict[str, Array]:
    found = folder.parameters(head)
    # A bare encoder is useful without its pooler; other missing parts are not made up.
    optional = POOLER if HEADS[head].bare or not HEADS[head].pooled else ()
    if missing := [name for name in found.missing if name not in optional]:
        problem = f"lacks {missing[0]} ({len(missing)} tensors in all)"
        raise CheckpointError(f"{folder.path} {problem}; export a folder that litebert or transformers saved whole")
    folder.check(found.found, head, len(folder.labels) if HEADS[head].labelled else None)
    return found.found
