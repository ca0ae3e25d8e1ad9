"""Read an ONNX file without running it: its notes, its outputs, and copies with other outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from litebert.common.errors import CheckpointError, needs
from litebert.common.limits import check_regular
from litebert.interop.hf_config import readable


class OnnxFile:
    """An ONNX file; large weights beside it are not read."""

    def __init__(self, path: Path) -> None:
        with needs("onnx", f"reading {path}", CheckpointError):
            import onnx
            from google.protobuf.message import DecodeError
        self.path = path
        with readable(path):
            check_regular(path)
        try:
            self._model = onnx.load(path, load_external_data=False)
        except (DecodeError, OSError, ValueError) as error:
            raise CheckpointError(f"{path} is cut or not an ONNX model: {error}") from None
        self.metadata = {note.key: note.value for note in self._model.metadata_props}
        self.outputs = tuple(output.name for output in self._model.graph.output)

    def with_outputs(self, names: Sequence[str]) -> bytes:
        """Return the model with other outputs: some of its own, or float tensors inside it.

        onnxruntime runs every node of a graph, whatever is asked for; so those that do not lead
        to the outputs are left out, and the weights that only they use.
        """
        import onnx
        from onnx import TensorProto, helper

        graph = self._model.graph
        own = {output.name: output for output in graph.output}
        needed = set(names)
        nodes = []
        for node in reversed(graph.node):  # a node comes after those that it reads
            if needed.intersection(node.output):
                needed.update(node.input)
                nodes.append(node)
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        for part in (model.graph.node, model.graph.initializer, model.graph.output):
            del part[:]
        model.graph.node.extend(reversed(nodes))
        model.graph.initializer.extend(x for x in graph.initializer if x.name in needed)
        for name in names:
            inside = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            model.graph.output.append(own.get(name, inside))
        serialized: bytes = model.SerializeToString()
        return serialized
