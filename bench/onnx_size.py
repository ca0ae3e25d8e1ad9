"""Size of the ONNX files and what of them is multiplied as integers, beside the usual way.

    python bench/onnx_size.py [--preset albert-base] [--json]

The same weights (random: neither size nor operators depend on them) go two ways: transformers'
AlbertForMaskedLM through torch.onnx, by tracing and by torch.export, then onnxruntime's
``quantize_dynamic``; and our export, float32 and int8. A *product* is a matrix product with a
stored weight; a *matrix* is counted once however many layers use it, and is an integer matrix if
all its products are. A file counts with its external data. torch.export needs onnxscript.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import torch
from machine import on_this_machine
from transformers import AlbertForMaskedLM
from transformers.utils.logging import disable_progress_bar

from litebert.interop.hf import build_model, save_model
from litebert.interop.onnx.export import export_onnx
from litebert.model.config import preset

if TYPE_CHECKING:
    from onnx import GraphProto

FLOAT_PRODUCTS = ("MatMul", "Gemm")
INTEGER_PRODUCTS = ("MatMulInteger", "QGemm", "QLinearMatMul", "DynamicQuantizeMatMul")
PASSED_THROUGH = ("Transpose", "Identity", "Cast", "Reshape", "DequantizeLinear")
"""Operators between a stored weight and its product that change its layout, not its values."""


@dataclass(frozen=True)
class Measured:
    """One way to an ONNX file."""

    name: str
    file_bytes: int
    integer_products: int
    products: int
    integer_matrices: int
    matrices: int


def measure(name: str, path: Path) -> Measured:
    """Read an ONNX file and count."""
    graph = onnx.load(path, load_external_data=False).graph
    found = [
        (node.op_type in INTEGER_PRODUCTS, origin)
        for node in graph.node
        if node.op_type in FLOAT_PRODUCTS + INTEGER_PRODUCTS
        for origin in [_stored_weight(graph, node.input[1])]
        if origin is not None
    ]
    matrices = {origin for _, origin in found}
    in_floats = {origin for is_integer, origin in found if not is_integer}
    return Measured(
        name=name,
        file_bytes=sum(file.stat().st_size for file in path.parent.iterdir() if file.is_file()),
        integer_products=sum(is_integer for is_integer, _ in found),
        products=len(found),
        integer_matrices=len(matrices - in_floats),
        matrices=len(matrices),
    )


def _stored_weight(graph: GraphProto, name: str) -> str | None:
    """Follow a tensor back to the initializer that it is a layout of, or None."""
    makers = {output: node for node in graph.node for output in node.output}
    stored = {tensor.name for tensor in graph.initializer}
    while name not in stored:
        maker = makers.get(name)
        if maker is None or maker.op_type not in PASSED_THROUGH:
            return None
        name = maker.input[0]
    return name.removesuffix("_quantized")  # what quantize_dynamic calls the rounded copy


def make_model(folder: Path, shape: str) -> AlbertForMaskedLM:
    """Write a model of a preset's shape with random weights; return transformers' view of it."""
    model = build_model(preset(shape), "pretraining", None, torch.Generator().manual_seed(0))
    save_model(model, folder, head="masked_lm")
    peer = AlbertForMaskedLM.from_pretrained(folder, attn_implementation="eager")
    peer.train(False)
    return peer


class Logits(torch.nn.Module):
    """The model with plain tensors in and out, as exporters want it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """Return the logits of every position."""
        logits: torch.Tensor = self.model(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).logits
        return logits


def export_peer(model: torch.nn.Module, path: Path, dynamo: bool) -> None:
    """Export transformers' model with torch.onnx, batch and length free."""
    ids = torch.randint(5, 100, (2, 9))
    inputs = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    path.parent.mkdir()
    if dynamo:
        free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
        torch.onnx.export(
            Logits(model),
            inputs,
            str(path),
            dynamo=True,
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=(free, free, free),
            verbose=False,
        )
        return
    torch.onnx.export(
        Logits(model),
        inputs,
        str(path),
        dynamo=False,
        opset_version=17,
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch", 1: "sequence"} for name in names},
    )


def quantize_peer(source: Path, path: Path) -> None:
    """Quantise with onnxruntime's tools, as its guide advises: shapes and optimisation first.

    Weights per channel, activations as they come.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path.parent.mkdir()
    prepared = path.with_name("prepared.onnx")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    quantize_dynamic(prepared, path, per_channel=True, weight_type=QuantType.QInt8)
    prepared.unlink()


def rows(shape: str, work: Path) -> list[Measured | str]:
    """Go every way; a way that fails is a line of text."""
    results: list[Measured | str] = []

    def attempt(name: str, path: Path, make: Callable[[], object]) -> bool:
        try:
            make()
        except Exception as error:  # a peer's failure is a result
            reason = str(error).strip().splitlines() or [type(error).__name__]
            results.append(f"{name}: failed, {reason[0][:120]}")
            return False
        results.append(measure(name, path))
        return True

    model = make_model(work / "model", shape)
    for way, dynamo in (("traced", False), ("torch.export", True)):
        if dynamo and find_spec("onnxscript") is None:
            results.append("transformers, torch.export: not run, needs `pip install onnxscript`")
            continue
        full, small = work / way / "model.onnx", work / f"{way}-int8" / "model.onnx"
        if attempt(f"transformers, {way}", full, partial(export_peer, model, full, dynamo)):
            name = f"transformers, {way}, prepared, quantize_dynamic"
            attempt(name, small, partial(quantize_peer, full, small))
    for precision in ("float32", "int8"):
        out = work / f"litebert-{precision}"
        report = export_onnx(work / "model", out, int8=precision == "int8")
        counted = measure(f"litebert {precision}", out / "model.onnx")
        # The folder also holds config.json; the model alone is compared.
        results.append(Measured(**{**asdict(counted), "file_bytes": report.file_bytes}))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="albert-base")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as work:
        results = rows(arguments.preset, Path(work))
    packages = ("torch", "transformers", "onnx", "onnxruntime")
    versions = {name: version(name) for name in packages}
    if arguments.json:
        listed = [{"failed": row} if isinstance(row, str) else asdict(row) for row in results]
        print(json.dumps({"preset": arguments.preset, "versions": versions, "rows": listed}))
        return
    print(", ".join([arguments.preset, *(f"{name} {v}" for name, v in versions.items())]))
    print(f"{'':<44} {'file':>9}  integer products  integer matrices")
    for row in results:
        if isinstance(row, str):
            print(row)
            continue
        print(
            f"{row.name:<44} {row.file_bytes / 1e6:6.2f} MB"
            f"  {f'{row.integer_products} of {row.products}':>16}"
            f"  {f'{row.integer_matrices} of {row.matrices}':>16}"
        )


if __name__ == "__main__":
    with on_this_machine():
        main()
