"""A plain numpy forward pass of every head, in float64: what exports are checked against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litebert.model.config import ModelConfig
from litebert.model.head_table import Head
from litebert.model.sharing import plan_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class ReferenceInputs(NamedTuple):
    """A batch of token ids."""

    input_ids_BS: Ints
    attention_mask_BS: Ints
    token_type_ids_BS: Ints


class ReferenceModel:
    """The formulas of the specification, written for reading and not for speed.

    Example:
        >>> model = ReferenceModel(config, parameters)
        >>> model.outputs("span", inputs)["start_logits"].shape
        (2, 17)
    """

    def __init__(
        self,
        config: ModelConfig,
        parameters: Mapping[str, npt.NDArray[np.generic]],
        depth: int | None = None,
    ) -> None:
        self.config = config
        self.weights = {name: array.astype(np.float64) for name, array in parameters.items()}
        plan = plan_of(config)
        self.plan = plan if depth is None else plan.at_depth(depth)

    def outputs(self, head: Head, inputs: ReferenceInputs) -> dict[str, Floats]:
        """Return the outputs of a head by the names of the ONNX export.

        ``logits`` [B, S, V] (words), [B, labels], [B, 1] (one choice per row) or [B, S, labels];
        ``sop_logits`` [B, 2]; ``start_logits`` and ``end_logits`` [B, S]; ``answer_logits`` [B];
        ``pooler_output`` [B, H]; ``last_hidden_state`` [B, S, H].
        """
        hidden_BSH = self.encode(inputs)
        outputs = {"last_hidden_state": hidden_BSH}
        match head:
            case "encoder":
                if "encoder.pooler.weight" in self.weights:
                    outputs["pooler_output"] = self._pool(hidden_BSH)
            case "pretraining" | "masked_lm":
                outputs["logits"] = self._words(hidden_BSH)
                if head == "pretraining":
                    outputs["pooler_output"] = self._pool(hidden_BSH)
                    outputs["sop_logits"] = self._linear(outputs["pooler_output"], "sentence")
            case "classification" | "regression" | "multiple_choice":
                outputs["logits"] = self._linear(self._pool(hidden_BSH), "classifier")
            case "token_classification":
                outputs["logits"] = self._linear(hidden_BSH, "classifier")
            case "span":
                both_BS2 = self._linear(hidden_BSH, "span")
                outputs["start_logits"], outputs["end_logits"] = both_BS2[..., 0], both_BS2[..., 1]
            case "squad2":
                keep_BS = inputs.attention_mask_BS.astype(bool)
                outputs["answer_logits"] = self._answerability(hidden_BSH, keep_BS)
        return outputs

    def encode(self, inputs: ReferenceInputs) -> Floats:
        """Return the last hidden state [B, S, H]."""
        x_BSH = self._embed(inputs.input_ids_BS, inputs.token_type_ids_BS)
        keep_BS = inputs.attention_mask_BS.astype(bool)
        for attention, feed_forward, norms in self.plan.blocks:
            mixed_BSH = self._attend(x_BSH, keep_BS, f"encoder.attention.{attention}")
            x_BSH = self._norm(x_BSH + mixed_BSH, f"encoder.norms.{norms}.attention")
            name = f"encoder.feed_forward.{feed_forward}"
            fed_BSF = self._activate(self._linear(x_BSH, f"{name}.expand"))
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
        batch, length, hidden = x_BSH.shape
        shape = (batch, length, self.config.heads, self.config.head_size)
        query, key, value = (
            self._linear(x_BSH, f"{name}.{part}").reshape(shape).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores_BASS = query @ key.transpose(0, 1, 3, 2) / math.sqrt(self.config.head_size)
        scores_BASS = np.where(keep_BS[:, None, None], scores_BASS, -np.inf)
        weights_BASS = np.exp(scores_BASS - scores_BASS.max(axis=-1, keepdims=True))
        weights_BASS /= weights_BASS.sum(axis=-1, keepdims=True)
        mixed_BSH = (weights_BASS @ value).transpose(0, 2, 1, 3).reshape(batch, length, hidden)
        return self._linear(mixed_BSH, f"{name}.output")

    def _words(self, hidden: Floats) -> Floats:
        x = self._norm(self._activate(self._linear(hidden, "mlm.transform")), "mlm.norm")
        table_VE = self.weights["encoder.embeddings.word.weight"]
        words: Floats = x @ table_VE.T + self.weights["mlm.bias"]
        return words

    def _answerability(self, hidden_BSH: Floats, keep_BS: npt.NDArray[np.bool_]) -> Floats:
        """The paper's SQuAD 2.0 head with every token allowed."""
        scores_BS = np.where(keep_BS, self._linear(hidden_BSH, "start")[..., 0], -np.inf)
        weights_BS = np.exp(scores_BS - scores_BS.max(axis=-1, keepdims=True))
        weights_BS /= weights_BS.sum(axis=-1, keepdims=True)
        expected_BH = (weights_BS[:, None] @ hidden_BSH)[:, 0]
        both = np.concatenate([expected_BH, hidden_BSH[:, 0]], axis=-1)
        features_BH = np.tanh(self._linear(both, "answer_hidden"))
        logits_B: Floats = (features_BH @ self.weights["answer.weight"].T)[:, 0]
        return logits_B

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

    def _activate(self, x: Floats) -> Floats:
        match self.config.activation:
            case "gelu_tanh":
                tanh: Floats = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
                gelu: Floats = 0.5 * x * (1 + tanh)
                return gelu
            case "gelu":
                # numpy has no erf; the inputs of a check are small enough for Python's.
                erf: Floats = np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2))
                exact: Floats = 0.5 * x * (1 + erf)
                return exact
            case "relu":
                return np.maximum(x, 0)
            case "tanh":
                return np.tanh(x)
            case "linear":
                return x
