"""Write an ONNX graph node by node, every weight stored once, as float32 or int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from litebert import __version__

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

Array = npt.NDArray[np.generic]
Attributes = Mapping[str, object]

OPSET = 20
"""The first operator set with Gelu; onnxruntime 1.17 and later read it."""
IR_VERSION = 9

LARGEST = 63
"""Weights use seven bits. onnxruntime's kernels for processors without VNNI add two products of
an unsigned and a signed byte in 16 bits: 2 * 255 * 127 overflows, 2 * 255 * 63 does not."""
FULL_RANGE = 127
"""Eight bits, for processors that are known to add in 32 bits."""

_NONE: Attributes = {}


@dataclass
class Graph:
    """A graph under construction; tensors are handled by name.

    >>> graph = Graph()
    >>> y = graph.op("MatMul", ["x", graph.weight("w", np.eye(4, dtype=np.float32))])
    >>> graph.output("y", y, np.float32, ["batch", 4])
    """

    nodes: list[NodeProto] = field(default_factory=list)
    inputs: list[ValueInfoProto] = field(default_factory=list)
    outputs: list[ValueInfoProto] = field(default_factory=list)
    weights: dict[str, TensorProto] = field(default_factory=dict)
    _constants: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def input(self, name: str, shape: Sequence[str | int]) -> str:
        """Declare an int64 input."""
        from onnx import TensorProto, helper

        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, list(shape)))
        return name

    def output(
        self, name: str, tensor: str, dtype: type[np.generic], shape: Sequence[str | int]
    ) -> None:
        """Give a tensor out under a name."""
        from onnx import helper

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.nodes.append(helper.make_node("Identity", [tensor], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))

    def weight(self, name: str, array: Array) -> str:
        """Store a weight; asking again for the same name gives the same tensor."""
        from onnx import numpy_helper

        if name not in self.weights:
            self.weights[name] = numpy_helper.from_array(array, name)
        return name

    def constant(self, value: npt.ArrayLike, dtype: type[np.generic]) -> str:
        """Store a small constant; equal constants share one tensor."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(f"constant_{len(self._constants)}", array)
        return self._constants[key]

    def integers(self, value: npt.ArrayLike) -> str:
        """Store a constant of int64: a shape, axes, an index."""
        return self.constant(value, np.int64)

    def op(self, kind: str, inputs: Sequence[str], attributes: Attributes = _NONE) -> str:
        """Add a node with one output and return its name."""
        return self.ops(kind, inputs, 1, attributes)[0]

    def ops(
        self, kind: str, inputs: Sequence[str], num_outputs: int, attributes: Attributes = _NONE
    ) -> list[str]:
        """Add a node with several outputs and return their names."""
        from onnx import helper

        name = f"{kind}_{len(self.nodes)}"
        names = [name if i == 0 else f"{name}_{i}" for i in range(num_outputs)]
        node = helper.make_node(kind, list(inputs), names, name=name)
        node.attribute.extend(
            helper.make_attribute(key, value) for key, value in sorted(attributes.items())
        )
        self.nodes.append(node)
        return names

    def to_float(self, x: str) -> str:
        """Make float32 of integers."""
        from onnx import TensorProto

        return self.op("Cast", [x], {"to": TensorProto.FLOAT})

    def activate(self, x: str, activation: str) -> str:
        """Apply one of the model's activations."""
        if activation == "linear":
            return x
        if activation == "gelu_tanh":
            return self.op("Gelu", [x], {"approximate": "tanh"})
        return self.op({"gelu": "Gelu", "relu": "Relu", "tanh": "Tanh"}[activation], [x])

    def model(self, metadata: Mapping[str, str]) -> ModelProto:
        """Return the finished model."""
        from onnx import helper

        graph = helper.make_graph(
            self.nodes, "litebert", self.inputs, self.outputs, list(self.weights.values())
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="litebert",
            producer_version=__version__,
        )
        helper.set_model_props(model, dict(metadata))
        return model


class Precision:
    """How matrices and tables are stored and used: as they are, in float32."""

    name = "float32"
    bits = 32

    def linear(self, graph: Graph, x: str, name: str, weight_OI: Array, bias_O: Array) -> str:
        """Add ``x @ weight.T + bias``, only the transpose stored; x [..., I] -> [..., O]."""
        matrix = graph.weight(f"{name}.weight", weight_OI.T)
        bias = graph.weight(f"{name}.bias", bias_O)
        return graph.op("Add", [graph.op("MatMul", [x, matrix]), bias])

    def lookup(self, graph: Graph, ids: str, name: str, table_VE: Array) -> str:
        """Add rows of a table: ids [...] -> [..., E]."""
        return graph.op("Gather", [graph.weight(name, table_VE), ids])

    def decode(self, graph: Graph, x: str, name: str, table_VE: Array, bias_V: Array) -> str:
        """Add ``x @ table.T + bias`` with the same stored table as :meth:`lookup`; x [M, E]."""
        bias = graph.weight(f"{name}.decoder_bias", bias_V)
        return graph.op("Gemm", [x, graph.weight(name, table_VE), bias], {"transB": 1})


class Quantized(NamedTuple):
    """A matrix as integers and one scale per row."""

    values: npt.NDArray[np.int8]
    """[rows, columns]"""
    scales: npt.NDArray[np.float32]
    """[rows]; ``values * scales[:, None]`` is the matrix again, nearly."""


def quantize_rows(matrix: Array, largest: int = LARGEST) -> Quantized:
    """Round each row to integers so that its largest weight becomes ``largest``."""
    wide = matrix.astype(np.float64)
    peaks = np.abs(wide).max(axis=1, keepdims=True)
    scales = np.where(peaks > 0, peaks / largest, 1.0)
    values = np.clip(np.rint(wide / scales), -largest, largest)
    return Quantized(values.astype(np.int8), scales[:, 0].astype(np.float32))


class Int8(Precision):
    """Matrices as int8 with a scale per output channel; activations quantised as they come.

    Standard operators only (DynamicQuantizeLinear, MatMulInteger): onnxruntime fuses them, and
    measured on a processor without VNNI they ran at 1.9 times float32, faster than the fused
    operators of its own domain or block-wise MatMulNBits.
    """

    name = "int8"

    def __init__(self, bits: int = 7) -> None:
        self.bits, self._largest = bits, FULL_RANGE if bits == 8 else LARGEST
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
        flat = graph.op("Reshape", [scales, graph.integers([-1])])
        bias = graph.weight(f"{name}.decoder_bias", bias_V)
        return _integer_product(graph, x, matrix, flat, bias)

    def _table(self, graph: Graph, name: str, table_VE: Array) -> tuple[str, str]:
        quantized = self._quantize(name, table_VE)
        values = graph.weight(f"{name}_int8", quantized.values)
        return values, graph.weight(f"{name}_scale", quantized.scales[:, None])

    def _quantize(self, name: str, matrix: Array) -> Quantized:
        if name not in self._quantized:
            self._quantized[name] = quantize_rows(matrix, self._largest)
        return self._quantized[name]


def _integer_product(graph: Graph, x: str, matrix: str, scales: str, bias: str) -> str:
    """Add ``x @ matrix * scales + bias`` with x quantised to unsigned bytes on the way."""
    integers, scale, zero = graph.ops("DynamicQuantizeLinear", [x], 3)
    product = graph.op("MatMulInteger", [integers, matrix, zero])
    rescaled = graph.op("Mul", [graph.to_float(product), graph.op("Mul", [scale, scales])])
    return graph.op("Add", [rescaled, bias])
