"""Write an ONNX graph node by node, every weight and constant stored once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

Array = npt.NDArray[np.generic]
Attributes = Mapping[str, object]

OPSET = 20
"""The first operator set with Gelu; onnxruntime 1.17 and later read it."""
IR_VERSION = 9

_NONE: Attributes = {}


@dataclass
class Graph:
    """A graph under construction; tensors are handled by name.

    Example:
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

    def layer_norm(self, x: str, name: str, weight: Array, bias: Array, eps: float) -> str:
        """Normalise the last dimension."""
        gain, shift = self.weight(f"{name}.weight", weight), self.weight(f"{name}.bias", bias)
        return self.op("LayerNormalization", [x, gain, shift], {"axis": -1, "epsilon": eps})

    def activate(self, x: str, activation: str) -> str:
        """Apply one of the model's activations."""
        match activation:
            case "gelu_tanh":
                return self.op("Gelu", [x], {"approximate": "tanh"})
            case "gelu":
                return self.op("Gelu", [x])
            case "relu":
                return self.op("Relu", [x])
            case "tanh":
                return self.op("Tanh", [x])
            case "linear":
                return x
        raise AssertionError(f"unknown activation {activation}")

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
        )
        helper.set_model_props(model, dict(metadata))
        return model


class Precision:
    """How matrices and tables are stored and used: as they are, in float32."""

    name = "float32"

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
