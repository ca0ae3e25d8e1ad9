"""Classes, label sets or a number for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from litebert.tasks.base import Example, Feature, Outputs, Prediction, TextEncoder
from litebert.tasks.forms.arrays import (
    mean_log_probability,
    mean_of,
    require_labels,
    sigmoid,
    softmax,
)
from litebert.tasks.forms.requests import optional_text, required_text
from litebert.tasks.forms.rows import encode_unique, pair_row, single_row


@dataclass(frozen=True)
class TextForm:
    """A text or a pair of texts -> one class, several labels, or a number.

    Args:
        kind: which of the three.
        labels: names in the order of the logits; empty for regression.
        threshold: probability from which a label of several counts as predicted.

    Example:
        >>> TextForm("classification", ("contradiction", "entailment", "neutral"))
        >>> TextForm("regression")
    """

    kind: Literal["classification", "multi_label", "regression"]
    labels: tuple[str, ...] = ()
    threshold: float = 0.5

    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Read ``text`` and, for pairs, ``text_pair``."""
        return Example(id, required_text(record, "text"), optional_text(record, "text_pair"))

    def features(
        self, examples: Sequence[Example], tokenizer: TextEncoder, max_length: int
    ) -> list[Feature]:
        """Return one feature per example."""
        texts = (text for e in examples for text in (e.text, e.text_pair) if text is not None)
        encoded = encode_unique(texts, tokenizer)
        features = []
        for index, example in enumerate(examples):
            first = encoded[example.text]
            if example.text_pair is None:
                row = single_row(first, tokenizer, max_length)
            else:
                row = pair_row(first, encoded[example.text_pair], tokenizer, max_length)
            features.append(Feature(index, (row,), self._target(example)))
        return features

    def decode(
        self, examples: Sequence[Example], features: Sequence[Feature], outputs: Sequence[Outputs]
    ) -> list[Prediction]:
        """Take the likeliest class, the labels above the threshold, or the number itself."""
        return [
            self._predict(examples[feature.example].id, output)
            for feature, output in zip(features, outputs, strict=True)
        ]

    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        """Average probabilities of classes, and logits or numbers otherwise."""
        if self.kind == "classification":
            return {"logits": mean_log_probability(outputs, "logits")}
        return {"logits": mean_of(outputs, "logits")}

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return ``label`` and ``scores``, ``labels`` and ``scores``, or ``value``."""
        if self.kind == "regression":
            return {"value": prediction.value}
        scores = dict(zip(self.labels, prediction.scores, strict=True))
        if self.kind == "classification":
            assert isinstance(prediction.value, int)
            return {"label": self.labels[prediction.value], "scores": scores}
        assert isinstance(prediction.value, tuple)
        chosen = [name for name, flag in zip(self.labels, prediction.value, strict=True) if flag]
        return {"labels": chosen, "scores": scores}

    def _target(self, example: Example) -> npt.NDArray[np.generic] | None:
        if example.gold is None:
            return None
        if self.kind == "classification":
            return np.array(example.gold, np.int64)
        return np.array(example.gold, np.float32)

    def _predict(self, id: str, output: Outputs) -> Prediction:
        logits = output["logits"]
        if self.kind == "regression":
            return Prediction(id, float(logits.reshape(())))
        require_labels(len(logits), self.labels)
        if self.kind == "classification":
            probabilities = softmax(logits)
            return Prediction(id, int(probabilities.argmax()), tuple(probabilities.tolist()))
        probabilities = sigmoid(logits)
        flags = tuple(int(p >= self.threshold) for p in probabilities)
        return Prediction(id, flags, tuple(probabilities.tolist()))
