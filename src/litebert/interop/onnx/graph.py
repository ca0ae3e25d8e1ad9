"""Write an ONNX graph node by node, every weight stored once, as float32 or int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from litebert import __version__

Array = npt.NDArray[np.generic]
Quantized = tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]
"""A matrix [rows, columns] as integers, and the scale of each row."""
Input = str | int | float | Sequence[int]
"""Of a node: the name of a tensor; a float or integers are constants (float32, int64)."""
Shape = Sequence[str | int]

OPSET = 20
"""The first operator set with Gelu; onnxruntime 1.17 and later read it."""
IR_VERSION = 9

LARGEST = 63
"""Weights use seven bits. onnxruntime's kernels for processors without VNNI add two products of
an unsigned and a signed byte in 16 bits: 2 * 255 * 127 overflows, 2 * 255 * 63 does not."""
FULL_RANGE = 127
"""Eight bits, for processors that are known to add in 32 bits."""


class Graph:
    """A graph under construction; tensors are handled by name.

    >>> graph = Graph()
    >>> y = graph.op("MatMul", "x", graph.weight("w", np.eye(4, dtype=np.float32)))
    >>> graph.output("y", y, ["batch", 4])
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self.weights: dict[str, TensorProto] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def input(self, name: str, shape: Shape, kind: int = TensorProto.INT64) -> str:
        """Declare an input."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, tensor: str, shape: Shape, kind: int = TensorProto.FLOAT) -> None:
        """Give a tensor out under a name."""
        self.nodes.append(helper.make_node("Identity", [tensor], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def weight(self, name: str, array: Array) -> str:
        """Store a weight; asking again for the same name gives the same tensor."""
        if name not in self.weights:
            self.weights[name] = numpy_helper.from_array(array, name)
        return name

    def op(self, kind: str, *inputs: Input, **attributes: Any) -> str:
        """Add a node with one output and return its name."""
        return self.ops(1, kind, *inputs, **attributes)[0]

    def ops(self, num_outputs: int, kind: str, *inputs: Input, **attributes: Any) -> list[str]:
        """Add a node with several outputs and return their names."""
        name = f"{kind}_{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, num_outputs))]
        tensors = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        self.nodes.append(helper.make_node(kind, tensors, names, name=name, **attributes))
        return names

    def to_float(self, x: str) -> str:
        """Make float32 of integers."""
        return self.op("Cast", x, to=TensorProto.FLOAT)

    def activate(self, x: str, activation: str) -> str:
        """Apply one of the model's activations."""
        if activation == "linear":
            return x
        if activation == "gelu_tanh":
            return self.op("Gelu", x, approximate="tanh")
        return self.op(activation.capitalize(), x)  # Gelu, Relu, Tanh

    def model(self, metadata: Mapping[str, str]) -> ModelProto:
        """Return the finished model."""
        weights = list(self.weights.values())
        model = helper.make_model(
            helper.make_graph(self.nodes, "litebert", self.inputs, self.outputs, weights),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="litebert",
            producer_version=__version__,
        )
        helper.set_model_props(model, dict(metadata))
        return model

    def _constant(self, value: float | Sequence[int]) -> str:
        """Store a small constant; equal constants share one tensor."""
        array = np.asarray(value, np.float32 if isinstance(value, float) else np.int64)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(f"constant_{len(self._constants)}", array)
        return self._constants[key]


class Precision:
    """How matrices and tables are stored and used: as they are, in float32."""

    name = "float32"
    bits = 32

    def linear(self, graph: Graph, x: str, name: str, weight_OI: Array, bias_O: Array) -> str:
        """Add ``x @ weight.T + bias``, only the transpose stored; x [..., I] -> [..., O]."""
        product = graph.op("MatMul", x, graph.weight(f"{name}.weight", weight_OI.T))
        return graph.op("Add", product, graph.weight(f"{name}.bias", bias_O))

    def lookup(self, graph: Graph, ids: str, name: str, table_VE: Array) -> str:
        """Add rows of a table: ids [...] -> [..., E]."""
        return graph.op("Gather", graph.weight(name, table_VE), ids)

    def decode(self, graph: Graph, x: str, name: str, table_VE: Array, bias_V: Array) -> str:
        """Add ``x @ table.T + bias`` with the same stored table as :meth:`lookup`; x [M, E]."""
        bias = graph.weight(f"{name}.decoder_bias", bias_V)
        return graph.op("Gemm", x, graph.weight(name, table_VE), bias, transB=1)


def quantize_rows(matrix: Array, largest: int = LARGEST) -> Quantized:
    """Round each row to int8 so that its largest weight becomes ``largest``.

    ``values * scales[:, None]`` is the matrix again, nearly.
    """
    wide = matrix.astype(np.float64)
    peaks = np.abs(wide).max(axis=1, keepdims=True)
    scales = np.where(peaks > 0, peaks / largest, 1.0)
    values = np.clip(np.rint(wide / scales), -largest, largest)
    return values.astype(np.int8), scales[:, 0].astype(np.float32)


class Int8(Precision):
    """Matrices as int8 with a scale per output channel; activations quantised as they come.

    Standard operators only (DynamicQuantizeLinear, MatMulInteger): onnxruntime fuses them, and
    measured on a processor without VNNI they ran at 1.9 times float32, faster than the fused
    operators of its own domain or block-wise MatMulNBits.
    """

    name = "int8"

    def __init__(self, bits: int = 7) -> None:
        self.bits = bits
        self._quantized: dict[str, Quantized] = {}  # a shared matrix is rounded once

    def linear(self, graph: Graph, x: str, name: str, weight_OI: Array, bias_O: Array) -> str:
        """Add an integer product, its rescaling and the bias."""
        values, scales = self._quantize(name, weight_OI)
        matrix = graph.weight(f"{name}.weight_int8", values.T)
        scale = graph.weight(f"{name}.weight_scale", scales)
        return _integer_product(graph, x, matrix, scale, graph.weight(f"{name}.bias", bias_O))

    def lookup(self, graph: Graph, ids: str, name: str, table_VE: Array) -> str:
        """Add a Gather of int8 rows, multiplied by the gathered scales."""
        values, scales = self._table(graph, name, table_VE)
        rows = graph.to_float(graph.op("Gather", values, ids))
        return graph.op("Mul", rows, graph.op("Gather", scales, ids))

    def decode(self, graph: Graph, x: str, name: str, table_VE: Array, bias_V: Array) -> str:
        """Add an integer product with the table; its rows are the output channels."""
        values, scales = self._table(graph, name, table_VE)
        matrix = graph.op("Transpose", values, perm=[1, 0])
        flat = graph.op("Reshape", scales, [-1])
        bias = graph.weight(f"{name}.decoder_bias", bias_V)
        return _integer_product(graph, x, matrix, flat, bias)

    def _table(self, graph: Graph, name: str, table_VE: Array) -> tuple[str, str]:
        values, scales = self._quantize(name, table_VE)
        return graph.weight(f"{name}_int8", values), graph.weight(f"{name}_scale", scales[:, None])

    def _quantize(self, name: str, matrix: Array) -> Quantized:
        if name not in self._quantized:
            self._quantized[name] = quantize_rows(matrix, FULL_RANGE if self.bits == 8 else LARGEST)
        return self._quantized[name]


def _integer_product(graph: Graph, x: str, matrix: str, scales: str, bias: str) -> str:
    """Add ``x @ matrix * scales + bias`` with x quantised to unsigned bytes on the way."""
    integers, scale, zero = graph.ops(3, "DynamicQuantizeLinear", x)
    product = graph.to_float(graph.op("MatMulInteger", integers, matrix, zero))
    rescaled = graph.op("Mul", product, graph.op("Mul", scale, scales))
    return graph.op("Add", rescaled, bias)
