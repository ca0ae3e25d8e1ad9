"""The ONNX graph of a model: embeddings, blocks by the sharing plan, and each head."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, TensorProto

from litebert.interop.names import POOLER
from litebert.interop.onnx.graph import Array, Graph, Precision
from litebert.model.config import ModelConfig, Pooling
from litebert.model.head_table import BEAM, HEADS, Head, HeadRow
from litebert.model.sharing import plan_of

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
        self.plan = plan_of(config, depth)
        self.graph = Graph()
        self.op = self.graph.op
        self.states: list[str] = []

    def build(self, head: Head) -> ModelProto:
        """Return the model with Optimum's inputs, the head's outputs first."""
        row = HEADS[head]
        shape = [BATCH, CHOICES, SEQUENCE] if row.choices else [BATCH, SEQUENCE]
        names = ("input_ids", "attention_mask", "token_type_ids")
        ids, mask, types = (self.graph.input(name, shape) for name in names)
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
            pooled = self._pool(sequence)
            self.graph.output("pooler_output", pooled, [BATCH, self.config.hidden_size])
            if "sop_logits" in row.output_names:
                self.graph.output("sop_logits", self._small(pooled, "sentence"), [BATCH, 2])
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
        # 0 where there is a token, a large negative number where padding: [B, 1, 1, S].
        bias = self.op("Mul", self.op("Sub", 1.0, self.graph.to_float(mask)), _MASKED_SCORE)
        bias = self.op("Unsqueeze", bias, [1, 2])
        x = self._embed(ids, types)
        self.states = [x]
        for attention, feed_forward, norms in self.plan.blocks:
            attended = self._attend(x, bias, f"encoder.attention.{attention}")
            x = self._norm(self.op("Add", x, attended), f"encoder.norms.{norms}.attention")
            fed = self._linear(x, f"encoder.feed_forward.{feed_forward}.expand")
            fed = self.graph.activate(fed, self.config.activation)
            fed = self._linear(fed, f"encoder.feed_forward.{feed_forward}.contract")
            x = self._norm(self.op("Add", x, fed), f"encoder.norms.{norms}.feed_forward")
            self.states.append(x)
        return x

    def _embed(self, ids: str, types: str) -> str:
        words_first = self.config.embedding_layout == "projected_words"
        x = self.precision.lookup(self.graph, ids, _WORDS, self.parameters[_WORDS])
        if words_first:
            x = self._project(x)
        # The small tables stay in float32: int8 would save 0.2 MB.
        length, table = self._sizes(ids, 1, 2), self._weight("encoder.embeddings.position.weight")
        x = self.op("Add", x, self.op("Slice", table, [0], length))
        x = self.op("Add", x, self.op("Gather", self._weight("encoder.embeddings.segment.weight"), types))
        x = self._norm(x, "encoder.embeddings.norm")
        return x if words_first else self._project(x)

    def _project(self, x: str) -> str:
        return self._linear(x, "encoder.embeddings.projection") if self.config.has_projection else x

    def _attend(self, x: str, bias: str, name: str) -> str:
        """Multi-head attention with query, key and value as one product; [B, S, H]."""
        op, config = self.op, self.config
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self.parameters[f"{part}.weight"] for part in parts])
        biases = np.concatenate([self.parameters[f"{part}.bias"] for part in parts])
        qkv = self.precision.linear(self.graph, x, f"{name}.qkv", weight, biases)
        heads = [0, 0, config.heads, config.head_size]
        query, key, value = (
            op("Reshape", part, heads) for part in self.graph.ops(3, "Split", qkv, [config.hidden_size] * 3, axis=-1)
        )
        query = op("Transpose", query, perm=[0, 2, 1, 3])
        key = op("Transpose", key, perm=[0, 2, 3, 1])
        value = op("Transpose", value, perm=[0, 2, 1, 3])
        scores = op("Mul", op("MatMul", query, key), config.head_size**-0.5)
        weights = op("Softmax", op("Add", scores, bias), axis=-1)
        mixed = op("Transpose", op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self._linear(op("Reshape", mixed, [0, 0, config.hidden_size]), f"{name}.output")

    def _output_linear(self, row: HeadRow, sequence: str) -> None:
        """A head that is one linear map: all columns as one output, or one column each."""
        read = self._pool(sequence, self.config.pooling) if row.pooled else sequence
        scores = self._small(read, row.linear)
        axes: list[str | int] = [BATCH] if row.pooled else [BATCH, SEQUENCE]
        size: str | int = len(self.parameters[f"{row.linear}.bias"])
        if row.choices:
            scores, size = self.op("Reshape", scores, self._sizes("input_ids", 0, 2)), CHOICES
        if len(row.outputs) == 1:
            name = row.outputs[0].foreign_name or row.outputs[0].name
            self.graph.output(name, scores, [*axes, size])
            return
        for index, output in enumerate(row.outputs):
            self.graph.output(output.name, self.op("Gather", scores, index, axis=-1), axes)

    def _pool(self, sequence: str, pooling: Pooling = "cls") -> str:
        if pooling == "cls":
            read = self.op("Gather", sequence, 0, axis=1)
        else:
            kept = self.op("Unsqueeze", self.graph.to_float(self._mask), [2])
            terms = (self.op("Mul", sequence, kept), kept)
            total, count = (self.op("ReduceSum", x, [1], keepdims=0) for x in terms)
            read = self.op("Div", total, count)
        return self.op("Tanh", self._linear(read, "encoder.pooler"))

    def _output_sequence(self, sequence: str, rows: str) -> None:
        self.graph.output("last_hidden_state", sequence, [rows, SEQUENCE, self.config.hidden_size])

    def _output_words(self, sequence: str, ids: str) -> None:
        """``logits`` [B, S, V] as others expect, ``masked_logits`` [M, V] where a mask stands."""
        op, vocab = self.op, self.config.vocab_size
        flat = op("Reshape", sequence, [-1, self.config.hidden_size])
        every = self._words(flat)
        shape = op("Concat", op("Shape", ids), [vocab], axis=0)
        self.graph.output("logits", op("Reshape", every, shape), [BATCH, SEQUENCE, vocab])
        is_mask = op("Equal", op("Reshape", ids, [-1]), self.mask_id)
        places = op("Squeeze", op("NonZero", is_mask), [0])
        self.graph.output("masked_logits", self._words(op("Gather", flat, places)), ["num_masks", vocab])

    def _words(self, hidden: str) -> str:
        """hidden [M, H] -> [M, V] through the tied word table."""
        x = self.graph.activate(self._linear(hidden, "mlm.transform"), self.config.activation)
        x = self._norm(x, "mlm.norm")
        table, bias = self.parameters[_WORDS], self.parameters["mlm.bias"]
        return self.precision.decode(self.graph, x, _WORDS, table, bias)

    def _output_beam(self, sequence: str) -> None:
        """Best starts, best ends for each, and answerability; spec section 5.2."""
        forbidden = self.graph.to_float(self.graph.input("p_mask", [BATCH, SEQUENCE]))
        penalty = self.op("Mul", forbidden, _FORBIDDEN)
        start = self.op("Squeeze", self._small(sequence, "start"), [-1])
        start = self.op("LogSoftmax", self.op("Add", start, penalty), axis=-1)
        starts = self._top(start, sequence)
        ends = self._top(self._end_scores(sequence, starts[1], penalty), sequence)
        for name, (scores, places), shape in (
            ("start_top", starts, [BATCH, "num_starts"]),
            ("end_top", ends, [BATCH, "num_starts", "num_ends"]),
        ):
            self.graph.output(f"{name}_log_probs", scores, shape)
            self.graph.output(f"{name}_index", places, shape, TensorProto.INT64)
        self.graph.output("answer_logits", self._answerability(sequence, start), [BATCH])

    def _top(self, scores: str, sequence: str) -> list[str]:
        """The best BEAM (or all, if fewer) of the last dimension: values and positions."""
        count = self.op("Min", self._sizes(sequence, 1, 2), [BEAM])
        return self.graph.ops(2, "TopK", scores, count, axis=-1)

    def _end_scores(self, sequence: str, starts: str, penalty: str) -> str:
        """[B, K, S]: log-probability of each end, given each start."""
        op, linear, hidden = self.op, self.precision.linear, self.config.hidden_size
        weight, bias = self.parameters["end_hidden.weight"], self.parameters["end_hidden.bias"]
        at_start = op("GatherND", sequence, op("Unsqueeze", starts, [-1]), batch_dims=1)
        here = linear(self.graph, sequence, "end_hidden.here", weight[:, :hidden], bias)
        nothing = np.zeros(hidden, np.float32)
        there = linear(self.graph, at_start, "end_hidden.start", weight[:, hidden:], nothing)
        pairs = op("Add", op("Unsqueeze", here, [1]), op("Unsqueeze", there, [2]))
        normed = self._norm(op("Tanh", pairs), "end_norm")
        scores = op("Squeeze", self._small(normed, "end"), [-1])
        return op("LogSoftmax", op("Add", scores, op("Unsqueeze", penalty, [1])), axis=-1)

    def _answerability(self, sequence: str, start_log_probs: str) -> str:
        op = self.op
        weights = op("Unsqueeze", op("Exp", start_log_probs), [1])
        expected = op("Squeeze", op("MatMul", weights, sequence), [1])
        both = op("Concat", expected, op("Gather", sequence, 0, axis=1), axis=-1)
        features = op("Tanh", self._linear(both, "answer_hidden"))
        matrix = self.graph.weight("answer.weight", self.parameters["answer.weight"].T)
        return op("Squeeze", op("MatMul", features, matrix), [-1])

    def _flatten_choices(self, name: str) -> str:
        """[B, choices, S] -> [B * choices, S]."""
        shape = self.op("Concat", [-1], self._sizes(name, 2, 3), axis=0)
        return self.op("Reshape", name, shape)

    def _sizes(self, name: str, start: int, stop: int) -> str:
        """Some dimensions of a tensor."""
        return self.op("Slice", self.op("Shape", name), [start], [stop])

    def _linear(self, x: str, name: str, precision: Precision | None = None) -> str:
        weight, bias = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        return (precision or self.precision).linear(self.graph, x, name, weight, bias)

    def _small(self, x: str, name: str) -> str:
        """A last linear map to a few outputs: too small to gain from int8, so always float."""
        return self._linear(x, name, Precision())

    def _norm(self, x: str, name: str) -> str:
        parts = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self.op("LayerNormalization", x, *parts, axis=-1, epsilon=self.config.layer_norm_eps)

    def _weight(self, name: str) -> str:
        return self.graph.weight(name, self.parameters[name])
