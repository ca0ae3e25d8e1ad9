"""Check an ONNX file against a plain numpy forward pass in float64, over several shapes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from litebert.common.errors import CheckpointError
from litebert.interop.folder import Array
from litebert.interop.names import POOLER
from litebert.model.config import Activation, ModelConfig
from litebert.model.head_table import HEADS, OUTPUTS, Head
from litebert.model.sharing import plan_of

FLOAT_TOLERANCE = 1e-4
INT8_TOLERANCE = 0.25

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Inputs = Mapping[str, Ints]
"""A batch [B, S] by the names of the graph's inputs."""

_SHAPES = ((1, 1), (1, 7), (3, 24), (2, 65))


@dataclass(frozen=True)
class Verification:
    """How far an export is from its weights."""

    difference: float
    """float32: the largest of any value, relative to the output's largest value or 1; int8: the
    root mean square over all inputs, relative to the output's own or 1; the worst output counts"""
    tolerance: float
    shapes: tuple[tuple[int, int], ...]  # (batch, length) of the inputs

    @property
    def passed(self) -> bool:
        """Whether the difference is allowed (one that is not a number is not)."""
        return self.difference <= self.tolerance


@cache
def check_eight_bits(path: Path) -> None:
    """Refuse a file with full-range weights where the processor's sums of them overflow.

    Tried, not looked up: a product of the largest bytes, in the shapes of a text and of a batch.
    """
    import onnxruntime
    from onnx import TensorProto

    from litebert.interop.onnx.graph import Graph

    graph = Graph()
    graph.input("a", ["m", 64], TensorProto.UINT8)
    weight = graph.weight("b", np.full((64, 32), 127, np.int8))
    graph.output("y", graph.op("MatMulInteger", "a", weight), ["m", 32], TensorProto.INT32)
    session = onnxruntime.InferenceSession(graph.model({}).SerializeToString())
    for rows in (1, 16):
        a = np.full((rows, 64), 255, np.uint8)
        if (session.run(None, {"a": a})[0] != 64 * 255 * 127).any():
            problem = "int8 weights of eight bits, and their products overflow on this processor, which has no VNNI"
            raise CheckpointError(f"{path} has {problem}; export it again with --int8-bits 7")


def verify_export(
    path: Path, config: ModelConfig, parameters: Mapping[str, Array], head: Head, depth: int | None = None
) -> Verification:
    """Compare an ONNX file with the numpy reference on random inputs of several shapes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    is_int8 = session.get_modelmeta().custom_metadata_map["precision"] == "int8"
    reference = ReferenceModel(config, parameters, depth)
    compared = defaultdict[str, list[Floats]](list)
    shapes = []
    for inputs in _check_inputs(config):
        shapes.append(inputs["input_ids"].shape)
        expected = reference.outputs(head, inputs)
        computed = session.run(list(expected), _feeds(head, inputs))
        keep = inputs["attention_mask"].astype(bool)
        for (name, right), got in zip(expected.items(), computed, strict=True):
            got = got.astype(np.float64).reshape(right.shape)
            if right.ndim == 3 or OUTPUTS[name].per == "token":
                right, got = right[keep], got[keep]  # nothing reads what padding gives
            compared[name].append(np.stack((right.ravel(), got.ravel())))

    def measure(values: Floats) -> float:
        return float(np.sqrt((values**2).mean()) if is_int8 else np.abs(values).max())

    difference = 0.0
    for parts in compared.values():
        right, got = np.hstack(parts)
        # numpy's maximum keeps what is not a number; Python's may drop it.
        difference = np.maximum(difference, measure(got - right) / max(1.0, measure(right)))
    tolerance = INT8_TOLERANCE if is_int8 else FLOAT_TOLERANCE
    return Verification(float(difference), tolerance, tuple(shapes))


def _check_inputs(config: ModelConfig) -> Iterator[Inputs]:
    """Yield random batches: one token, one text, several with padding."""
    generator = np.random.default_rng(0)
    for batch, wished in _SHAPES:
        length = min(wished, config.max_positions)
        ids = generator.integers(0, config.vocab_size, (batch, length))
        lengths = generator.integers(max(1, length // 2), length + 1, (batch, 1))
        lengths[0] = length
        mask = (np.arange(length) < lengths).astype(np.int64)
        types = np.minimum(np.arange(length) * 2 // length, config.type_vocab_size - 1)
        types = np.broadcast_to(types, ids.shape).astype(np.int64)
        yield {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def _feeds(head: Head, inputs: Inputs) -> Inputs:
    if HEADS[head].choices:
        return {name: array[:, None] for name, array in inputs.items()}
    if "answer_logits" in HEADS[head].output_names:
        # The reference has the answerability logit with only the padding out of the running.
        return {**inputs, "p_mask": 1 - inputs["attention_mask"]}
    return inputs


class ReferenceModel:
    """The formulas of the specification, written for reading and not for speed."""

    def __init__(self, config: ModelConfig, parameters: Mapping[str, Array], depth: int | None = None) -> None:
        self.config = config
        self.activate = _ACTIVATIONS[config.activation]
        self.weights = {name: array.astype(np.float64) for name, array in parameters.items()}
        self.plan = plan_of(config, depth)

    def outputs(self, head: Head, inputs: Inputs) -> dict[str, Floats]:
        """Return the outputs of a head by the names of the ONNX export, of the beam only the last.

        ``logits`` are [B, S, V] (words), [B, S, labels], [B, labels] or [B, 1] (one choice a row).
        """
        hidden_BSH = self.encode(inputs)
        outputs = {"last_hidden_state": hidden_BSH}
        row = HEADS[head]
        if row.linear:
            read = self._read(hidden_BSH, inputs) if row.pooled else hidden_BSH
            scores = self._linear(read, row.linear)
            if len(row.outputs) > 1:
                return outputs | {name: scores[..., k] for k, name in enumerate(row.output_names)}
            return outputs | {"logits": scores}
        if "masked_logits" in row.output_names:
            outputs["logits"] = self._words(hidden_BSH)
        if "pooler_output" in row.output_names and POOLER[0] in self.weights:
            outputs["pooler_output"] = self._pool(hidden_BSH)
        if "sop_logits" in row.output_names:
            outputs["sop_logits"] = self._linear(outputs["pooler_output"], "sentence")
        if "answer_logits" in row.output_names:
            outputs["answer_logits"] = self._answerability(hidden_BSH, inputs)
        return outputs

    def encode(self, inputs: Inputs) -> Floats:
        """Return the last hidden state [B, S, H]."""
        x_BSH = self._embed(inputs["input_ids"], inputs["token_type_ids"])
        keep_BS = inputs["attention_mask"].astype(bool)
        for attention, feed_forward, norms in self.plan.blocks:
            mixed_BSH = self._attend(x_BSH, keep_BS, f"encoder.attention.{attention}")
            x_BSH = self._norm(x_BSH + mixed_BSH, f"encoder.norms.{norms}.attention")
            name = f"encoder.feed_forward.{feed_forward}"
            fed_BSF = self.activate(self._linear(x_BSH, f"{name}.expand"))
            fed_BSH = self._linear(fed_BSF, f"{name}.contract")
            x_BSH = self._norm(x_BSH + fed_BSH, f"encoder.norms.{norms}.feed_forward")
        return x_BSH

    def _embed(self, ids_BS: Ints, types_BS: Ints) -> Floats:
        words_first = self.config.embedding_layout == "projected_words"
        x = self.weights["encoder.embeddings.word.weight"][ids_BS]
        x = self._project(x) if words_first else x
        x = x + self.weights["encoder.embeddings.position.weight"][: ids_BS.shape[1]]
        x = x + self.weights["encoder.embeddings.segment.weight"][types_BS]
        x = self._norm(x, "encoder.embeddings.norm")
        return x if words_first else self._project(x)

    def _project(self, x: Floats) -> Floats:
        return self._linear(x, "encoder.embeddings.projection") if self.config.has_projection else x

    def _attend(self, x_BSH: Floats, keep_BS: npt.NDArray[np.bool_], name: str) -> Floats:
        shape = (*x_BSH.shape[:2], self.config.heads, self.config.head_size)
        query, key, value = (
            self._linear(x_BSH, f"{name}.{part}").reshape(shape).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores_BASS = query @ key.transpose(0, 1, 3, 2) / math.sqrt(self.config.head_size)
        scores_BASS = np.where(keep_BS[:, None, None], scores_BASS, -np.inf)
        mixed_BSAD = (_softmax(scores_BASS) @ value).transpose(0, 2, 1, 3)
        return self._linear(mixed_BSAD.reshape(x_BSH.shape), f"{name}.output")

    def _words(self, hidden: Floats) -> Floats:
        x = self._norm(self.activate(self._linear(hidden, "mlm.transform")), "mlm.norm")
        table_VE = self.weights["encoder.embeddings.word.weight"]
        words_BSV: Floats = x @ table_VE.T + self.weights["mlm.bias"]
        return words_BSV

    def _answerability(self, hidden_BSH: Floats, inputs: Inputs) -> Floats:
        """The paper's SQuAD 2.0 head with every token allowed."""
        keep_BS = inputs["attention_mask"].astype(bool)
        scores_BS = np.where(keep_BS, self._linear(hidden_BSH, "start")[..., 0], -np.inf)
        expected_BH = (_softmax(scores_BS)[:, None] @ hidden_BSH)[:, 0]
        both = np.concatenate([expected_BH, hidden_BSH[:, 0]], axis=-1)
        features_BH = np.tanh(self._linear(both, "answer_hidden"))
        logits_B: Floats = (features_BH @ self.weights["answer.weight"].T)[:, 0]
        return logits_B

    def _read(self, hidden_BSH: Floats, inputs: Inputs) -> Floats:
        """The vector that a task head reads."""
        if self.config.pooling == "mean":
            mask_BS1 = inputs["attention_mask"][:, :, None]
            total_B1H = (hidden_BSH * mask_BS1).sum(1, keepdims=True)
            hidden_BSH = total_B1H / mask_BS1.sum(1, keepdims=True)
        return self._pool(hidden_BSH)

    def _pool(self, hidden_BSH: Floats) -> Floats:
        return np.tanh(self._linear(hidden_BSH[:, 0], "encoder.pooler"))

    def _linear(self, x: Floats, name: str) -> Floats:
        mapped: Floats = x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
        return mapped

    def _norm(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        normed: Floats = centred / np.sqrt(variance + self.config.layer_norm_eps)
        scaled: Floats = normed * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return scaled


def _softmax(scores: Floats) -> Floats:
    """Probabilities over the last axis; minus infinity gives none."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares


_ACTIVATIONS: Mapping[Activation, Callable[[Floats], Floats]] = {
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    # numpy has no erf; the inputs of a check are small enough for Python's.
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "linear": lambda x: x,
}
