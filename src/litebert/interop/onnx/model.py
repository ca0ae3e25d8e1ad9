"""The ONNX graph of a model: embeddings, blocks by the sharing plan, and each head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from litebert.interop.names import POOLER
from litebert.interop.onnx.graph import Array, Graph, Precision
from litebert.model.config import ModelConfig, Pooling
from litebert.model.head_table import BEAM, HEADS, Head, HeadRow
from litebert.model.sharing import SharingPlan, plan_of

if TYPE_CHECKING:
    from onnx import ModelProto

BATCH, SEQUENCE, CHOICES = "batch_size", "sequence_length", "num_choices"
"""Names of the free dimensions, as Optimum calls them."""

_MASKED_SCORE = -10_000.0  # as the official code: exp() of it is 0 beside any real score
_FORBIDDEN = -1e30
_WORDS = "encoder.embeddings.word.weight"


class ModelGraph:
    """Builds the graph of one model from its configuration and weights, by our names.

    ``masked_logits`` are computed where ``mask_id`` stands; ``depth`` layers run, by default all.
    """

    def __init__(
        self,
        config: ModelConfig,
        parameters: Mapping[str, Array],
        precision: Precision,
        mask_id: int,
        depth: int | None = None,
    ) -> None:
        self.config, self.parameters, self.precision = config, parameters, precision
        self.mask_id = mask_id
        plan = plan_of(config)
        self.plan: SharingPlan = plan if depth is None else plan.at_depth(depth)
        self.graph = Graph()
        self.states: list[str] = []

    def build(self, head: Head) -> ModelProto:
        """Return the model with Optimum's inputs, the head's outputs first."""
        row = HEADS[head]
        shape = [BATCH, CHOICES, SEQUENCE] if row.choices else [BATCH, SEQUENCE]
        ids = self.graph.input("input_ids", shape)
        mask = self.graph.input("attention_mask", shape)
        types = self.graph.input("token_type_ids", shape)
        if row.choices:
            ids, mask, types = (self._flatten_choices(name) for name in (ids, mask, types))
        self._mask = mask
        sequence = self._encode(ids, mask, types)
        if row.bare:
            self._output_sequence(sequence, BATCH)
        if row.linear:
            self._output_linear(row, sequence)
        if "masked_logits" in row.output_names:
            self._output_words(sequence, ids)
        if "pooler_output" in row.output_names and POOLER[0] in self.parameters:
            pooled, size = self._pool(sequence), self.config.hidden_size
            self.graph.output("pooler_output", pooled, np.float32, [BATCH, size])
            if "sop_logits" in row.output_names:
                order = self._small(pooled, "sentence")
                self.graph.output("sop_logits", order, np.float32, [BATCH, 2])
        if "answer_logits" in row.output_names:
            self._output_beam(sequence)
        if not row.bare:
            self._output_sequence(sequence, "rows" if row.choices else BATCH)
        return self.graph.model(
            {
                "head": head,
                "precision": self.precision.name,
                "weight_bits": str(self.precision.bits),
                "num_layers": str(self.plan.num_layers),
                # Tensors inside the graph: the embeddings and the output of each block. They
                # are not given out, but a reader can ask for them, see `with_outputs`.
                "hidden_states": ",".join(self.states),
            }
        )

    def _encode(self, ids: str, mask: str, types: str) -> str:
        """ids, mask, types [B, S] -> [B, S, H]."""
        graph = self.graph
        bias = self._attention_bias(mask)
        x = self._embed(ids, types)
        self.states = [x]
        for attention, feed_forward, norms in self.plan.blocks:
            attended = self._attend(x, bias, f"encoder.attention.{attention}")
            x = self._norm(graph.op("Add", [x, attended]), f"encoder.norms.{norms}.attention")
            fed = self._linear(x, f"encoder.feed_forward.{feed_forward}.expand")
            fed = graph.activate(fed, self.config.activation)
            fed = self._linear(fed, f"encoder.feed_forward.{feed_forward}.contract")
            x = self._norm(graph.op("Add", [x, fed]), f"encoder.norms.{norms}.feed_forward")
            self.states.append(x)
        return x

    def _embed(self, ids: str, types: str) -> str:
        words_first = self.config.embedding_layout == "projected_words"
        x = self.precision.lookup(self.graph, ids, _WORDS, self.parameters[_WORDS])
        if words_first:
            x = self._project(x)
        length = self.graph.op("Slice", [self.graph.op("Shape", [ids]), *self._range(1, 2)])
        # The small tables stay in float32: int8 would save 0.2 MB.
        table = self._weight("encoder.embeddings.position.weight")
        start = self.graph.integers([0])
        x = self.graph.op("Add", [x, self.graph.op("Slice", [table, start, length])])
        segment = self._weight("encoder.embeddings.segment.weight")
        x = self.graph.op("Add", [x, self.graph.op("Gather", [segment, types])])
        x = self._norm(x, "encoder.embeddings.norm")
        return x if words_first else self._project(x)

    def _project(self, x: str) -> str:
        return self._linear(x, "encoder.embeddings.projection") if self.config.has_projection else x

    def _attention_bias(self, mask: str) -> str:
        """mask [B, S] (1 = token) -> float [B, 1, 1, S], 0 or a large negative number."""
        graph = self.graph
        hidden = graph.op("Sub", [graph.constant(1.0, np.float32), graph.to_float(mask)])
        bias = graph.op("Mul", [hidden, graph.constant(_MASKED_SCORE, np.float32)])
        return graph.op("Unsqueeze", [bias, graph.integers([1, 2])])

    def _attend(self, x: str, bias: str, name: str) -> str:
        """Multi-head attention with query, key and value as one product; [B, S, H]."""
        graph, config = self.graph, self.config
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self.parameters[f"{part}.weight"] for part in parts])
        biases = np.concatenate([self.parameters[f"{part}.bias"] for part in parts])
        qkv = self.precision.linear(graph, x, f"{name}.qkv", weight, biases)
        sizes = graph.integers([config.hidden_size] * 3)
        heads = graph.integers([0, 0, config.heads, config.head_size])
        query, key, value = (
            graph.op("Reshape", [part, heads])
            for part in graph.ops("Split", [qkv, sizes], 3, {"axis": -1})
        )
        query = graph.op("Transpose", [query], {"perm": [0, 2, 1, 3]})
        key = graph.op("Transpose", [key], {"perm": [0, 2, 3, 1]})
        value = graph.op("Transpose", [value], {"perm": [0, 2, 1, 3]})
        scale = graph.constant(config.head_size**-0.5, np.float32)
        scores = graph.op("Mul", [graph.op("MatMul", [query, key]), scale])
        weights = graph.op("Softmax", [graph.op("Add", [scores, bias])], {"axis": -1})
        mixed = graph.op("MatMul", [weights, value])
        mixed = graph.op("Transpose", [mixed], {"perm": [0, 2, 1, 3]})
        merged = graph.integers([0, 0, config.hidden_size])
        return self._linear(graph.op("Reshape", [mixed, merged]), f"{name}.output")

    def _output_linear(self, row: HeadRow, sequence: str) -> None:
        """A head that is one linear map: all columns as one output, or one column each."""
        graph = self.graph
        read = self._pool(sequence, self.config.pooling) if row.pooled else sequence
        scores = self._small(read, row.linear)
        axes: list[str | int] = [BATCH] if row.pooled else [BATCH, SEQUENCE]
        size: str | int = len(self.parameters[f"{row.linear}.bias"])
        if row.choices:
            shape = graph.op("Slice", [graph.op("Shape", ["input_ids"]), *self._range(0, 2)])
            scores, size = graph.op("Reshape", [scores, shape]), CHOICES
        if len(row.outputs) == 1:
            file_name = row.outputs[0].foreign_name or row.outputs[0].name
            graph.output(file_name, scores, np.float32, [*axes, size])
            return
        for index, output in enumerate(row.outputs):
            column = graph.op("Gather", [scores, graph.integers(index)], {"axis": -1})
            graph.output(output.name, column, np.float32, axes)

    def _pool(self, sequence: str, pooling: Pooling = "cls") -> str:
        graph = self.graph
        if pooling == "cls":
            read = graph.op("Gather", [sequence, graph.integers(0)], {"axis": 1})
        else:
            kept = graph.op("Unsqueeze", [graph.to_float(self._mask), graph.integers([2])])
            terms = (graph.op("Mul", [sequence, kept]), kept)
            axes = graph.integers([1])
            total, count = (graph.op("ReduceSum", [x, axes], {"keepdims": 0}) for x in terms)
            read = graph.op("Div", [total, count])
        return graph.op("Tanh", [self._linear(read, "encoder.pooler")])

    def _output_sequence(self, sequence: str, rows: str) -> None:
        shape: list[str | int] = [rows, SEQUENCE, self.config.hidden_size]
        self.graph.output("last_hidden_state", sequence, np.float32, shape)

    def _output_words(self, sequence: str, ids: str) -> None:
        """``logits`` [B, S, V] as others expect, ``masked_logits`` [M, V] where a mask stands."""
        graph, vocab = self.graph, self.config.vocab_size
        rows = graph.integers([-1, self.config.hidden_size])
        flat = graph.op("Reshape", [sequence, rows])
        every = self._words(flat)
        sizes = graph.op("Shape", [ids])
        shape = graph.op("Concat", [sizes, graph.integers([vocab])], {"axis": 0})
        logits = graph.op("Reshape", [every, shape])
        graph.output("logits", logits, np.float32, [BATCH, SEQUENCE, vocab])
        line = graph.op("Reshape", [ids, graph.integers([-1])])
        is_mask = graph.op("Equal", [line, graph.integers(self.mask_id)])
        places = graph.op("NonZero", [is_mask])
        places = graph.op("Squeeze", [places, graph.integers([0])])
        masked = self._words(graph.op("Gather", [flat, places]))
        graph.output("masked_logits", masked, np.float32, ["num_masks", vocab])

    def _words(self, hidden: str) -> str:
        """hidden [M, H] -> [M, V] through the tied word table."""
        x = self.graph.activate(self._linear(hidden, "mlm.transform"), self.config.activation)
        x = self._norm(x, "mlm.norm")
        table, bias = self.parameters[_WORDS], self.parameters["mlm.bias"]
        return self.precision.decode(self.graph, x, _WORDS, table, bias)

    def _output_beam(self, sequence: str) -> None:
        """Best starts, best ends for each, and answerability; spec section 5.2."""
        graph = self.graph
        forbidden = graph.to_float(graph.input("p_mask", [BATCH, SEQUENCE]))
        penalty = graph.op("Mul", [forbidden, graph.constant(_FORBIDDEN, np.float32)])
        last = graph.integers([-1])
        start = graph.op("Squeeze", [self._small(sequence, "start"), last])
        start = graph.op("LogSoftmax", [graph.op("Add", [start, penalty])], {"axis": -1})
        starts = self._top(start, sequence)
        ends = self._top(self._end_scores(sequence, starts[1], penalty), sequence)
        beam: list[str | int] = [BATCH, "num_starts"]
        graph.output("start_top_log_probs", starts[0], np.float32, beam)
        graph.output("start_top_index", starts[1], np.int64, beam)
        graph.output("end_top_log_probs", ends[0], np.float32, [*beam, "num_ends"])
        graph.output("end_top_index", ends[1], np.int64, [*beam, "num_ends"])
        graph.output("answer_logits", self._answerability(sequence, start), np.float32, [BATCH])

    def _top(self, scores: str, sequence: str) -> list[str]:
        """The best BEAM (or all, if fewer) of the last dimension: values and positions."""
        length = self.graph.op("Slice", [self.graph.op("Shape", [sequence]), *self._range(1, 2)])
        count = self.graph.op("Min", [length, self.graph.integers([BEAM])])
        return self.graph.ops("TopK", [scores, count], 2, {"axis": -1})

    def _end_scores(self, sequence: str, starts: str, penalty: str) -> str:
        """[B, K, S]: log-probability of each end, given each start."""
        graph, hidden = self.graph, self.config.hidden_size
        weight = self.parameters["end_hidden.weight"]
        nothing = np.zeros(hidden, np.float32)
        places = graph.op("Unsqueeze", [starts, graph.integers([-1])])
        at_start = graph.op("GatherND", [sequence, places], {"batch_dims": 1})
        bias = self.parameters["end_hidden.bias"]
        here = self.precision.linear(graph, sequence, "end_hidden.here", weight[:, :hidden], bias)
        weight = weight[:, hidden:]
        there = self.precision.linear(graph, at_start, "end_hidden.start", weight, nothing)
        here = graph.op("Unsqueeze", [here, graph.integers([1])])
        there = graph.op("Unsqueeze", [there, graph.integers([2])])
        pairs = graph.op("Add", [here, there])
        normed = self._norm(graph.op("Tanh", [pairs]), "end_norm")
        scores = graph.op("Squeeze", [self._small(normed, "end"), graph.integers([-1])])
        blocked = graph.op("Unsqueeze", [penalty, graph.integers([1])])
        return graph.op("LogSoftmax", [graph.op("Add", [scores, blocked])], {"axis": -1})

    def _answerability(self, sequence: str, start_log_probs: str) -> str:
        graph = self.graph
        weights = graph.op("Exp", [start_log_probs])
        weights = graph.op("Unsqueeze", [weights, graph.integers([1])])
        expected = graph.op("MatMul", [weights, sequence])
        expected = graph.op("Squeeze", [expected, graph.integers([1])])
        first = graph.op("Gather", [sequence, graph.integers(0)], {"axis": 1})
        both = graph.op("Concat", [expected, first], {"axis": -1})
        features = graph.op("Tanh", [self._linear(both, "answer_hidden")])
        matrix = graph.weight("answer.weight", self.parameters["answer.weight"].T)
        logits = graph.op("MatMul", [features, matrix])
        return graph.op("Squeeze", [logits, graph.integers([-1])])

    def _flatten_choices(self, name: str) -> str:
        """[B, choices, S] -> [B * choices, S]."""
        length = self.graph.op("Slice", [self.graph.op("Shape", [name]), *self._range(2, 3)])
        shape = self.graph.op("Concat", [self.graph.integers([-1]), length], {"axis": 0})
        return self.graph.op("Reshape", [name, shape])

    def _linear(self, x: str, name: str) -> str:
        weight, bias = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        return self.precision.linear(self.graph, x, name, weight, bias)

    def _small(self, x: str, name: str) -> str:
        """A last linear map to a few outputs: too small to gain from int8, so always float."""
        matrix = self.graph.weight(f"{name}.weight", self.parameters[f"{name}.weight"].T)
        product = self.graph.op("MatMul", [x, matrix])
        return self.graph.op("Add", [product, self._weight(f"{name}.bias")])

    def _norm(self, x: str, name: str) -> str:
        parts = [x, self._weight(f"{name}.weight"), self._weight(f"{name}.bias")]
        attributes = {"axis": -1, "epsilon": self.config.layer_norm_eps}
        return self.graph.op("LayerNormalization", parts, attributes)

    def _weight(self, name: str) -> str:
        return self.graph.weight(name, self.parameters[name])

    def _range(self, start: int, stop: int) -> list[str]:
        return [self.graph.integers([value]) for value in (start, stop)]
