"""int8 weights for an ONNX graph: per channel, stored once, multiplied as integers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litebert.interop.onnx.graph import Array, Graph, Precision

LARGEST = 63
"""Weights use seven bits. onnxruntime's kernels for processors without VNNI add two products of
an unsigned and a signed byte in 16 bits: 2 * 255 * 127 overflows, 2 * 255 * 63 does not."""


class Quantized(NamedTuple):
    """A matrix as integers and one scale per row."""

    values: npt.NDArray[np.int8]
    """[rows, columns], each between -LARGEST and LARGEST."""
    scales: npt.NDArray[np.float32]
    """[rows]; ``values * scales[:, None]`` is the matrix again, nearly."""


def quantize_rows(matrix: Array) -> Quantized:
    """Round each row to integers so that its largest weight becomes :data:`LARGEST`."""
    wide = matrix.astype(np.float64)
    peaks = np.abs(wide).max(axis=1, keepdims=True)
    scales = np.where(peaks > 0, peaks / LARGEST, 1.0)
    values = np.clip(np.rint(wide / scales), -LARGEST, LARGEST)
    return Quantized(values.astype(np.int8), scales[:, 0].astype(np.float32))


class Int8(Precision):
    """Matrices as int8 with a scale per output channel; activations quantised as they come.

    Standard operators only (DynamicQuantizeLinear, MatMulInteger): onnxruntime fuses them, and
    measured on a processor without VNNI they ran at 1.9 times float32, faster than the fused
    operators of its own domain or block-wise MatMulNBits.
    """

    name = "int8"

    def __init__(self) -> None:
        self._quantized: dict[str, Quantized] = {}  # a shared matrix is rounded once

    def linear(self, graph: Graph, x: str, name: str, weight_OI: Array, bias_O: Array) -> str:
        """Add an integer product, its rescaling and the bias."""
        quantized = self._quantize(name, weight_OI)
        matrix = graph.weight(f"{name}.weight_int8", quantized.values.T)
        scales = graph.weight(f"{name}.weight_scale", quantized.scales)
        bias = graph.weight(f"{name}.bias", bias_O)
        return _integer_product(graph, x, matrix, scales, bias)

    def lookup(self, graph: Graph, ids: str, name: str, table_VE: Array) -> str:
        """Add a Gather of int8 rows, multiplied by the gathered scales."""
        values, scales = self._table(graph, name, table_VE)
        rows = graph.to_float(graph.op("Gather", [values, ids]))
        return graph.op("Mul", [rows, graph.op("Gather", [scales, ids])])

    def decode(self, graph: Graph, x: str, name: str, table_VE: Array, bias_V: Array) -> str:
        """Add an integer product with the table; its rows are the output channels."""
        values, scales = self._table(graph, name, table_VE)
        matrix = graph.op("Transpose", [values], {"perm": [1, 0]})
        flat = graph.op("Reshape", [scales, graph.constant([-1], np.int64)])
        bias = graph.weight(f"{name}.decoder_bias", bias_V)
        return _integer_product(graph, x, matrix, flat, bias)

    def _table(self, graph: Graph, name: str, table_VE: Array) -> tuple[str, str]:
        quantized = self._quantize(name, table_VE)
        values = graph.weight(f"{name}_int8", quantized.values)
        return values, graph.weight(f"{name}_scale", quantized.scales[:, None])

    def _quantize(self, name: str, matrix: Array) -> Quantized:
        if name not in self._quantized:
            self._quantized[name] = quantize_rows(matrix)
        return self._quantized[name]


def _integer_product(graph: Graph, x: str, matrix: str, scales: str, bias: str) -> str:
    """Add ``x @ matrix * scales + bias`` with x quantised to unsigned bytes on the way."""
    integers, scale, zero = graph.ops("DynamicQuantizeLinear", [x], 3)
    product = graph.op("MatMulInteger", [integers, matrix, zero])
    rescaled = graph.op("Mul", [graph.to_float(product), graph.op("Mul", [scale, scales])])
    return graph.op("Add", [rescaled, bias])
