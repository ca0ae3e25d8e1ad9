"""Classes, label sets or a number for a text or a pair of texts."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from litebert.tasks.base import (
    Example,
    Examples,
    Feature,
    Features,
    FloatArray,
    Form,
    Outputs,
    Prediction,
    Predictions,
)
from litebert.tasks.forms.arrays import (
    mean_log_probability,
    mean_of,
    require_labels,
    sigmoid,
    softmax,
)
from litebert.tasks.forms.requests import (
    UNKNOWN_LABEL,
    Cells,
    RowError,
    optional_text,
    required_text,
    split_cell,
)
from litebert.tasks.forms.rows import encode_unique, pair_row, single_row
from litebert.tasks.metrics import (
    Floats,
    accuracy,
    confusion_matrix,
    f1,
    macro_f1,
    matthews,
    multi_label_scores,
    pearson,
    spearman,
)
from litebert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextForm(Form):
    """A text or a pair of texts -> what one vector of the model says."""

    columns = ("text", "label")

    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Read ``text`` and, for pairs, ``text_pair``."""
        return Example(id, required_text(record, "text"), optional_text(record, "text_pair"))

    def read_row(self, cells: Cells, id: str) -> Example:
        """Read ``text`` and, if it is named, ``text_pair``."""
        return Example(id, cells.text("text"), cells.optional_text("text_pair"))

    def features(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> Features:
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
            target = None if example.gold is None else self.target(example)
            features.append(Feature(index, (row,), target))
        return features

    def decode(
        self, examples: Examples, features: Features, outputs: Sequence[Outputs]
    ) -> list[Prediction]:
        """Read the logits of each example."""
        return [
            self.predict(examples[feature.example].id, output["logits"])
            for feature, output in zip(features, outputs, strict=True)
        ]

    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        """Average logits or numbers."""
        return {"logits": mean_of(outputs, "logits")}

    def written(self, prediction: Prediction) -> object:
        """Return what people read: labels by name, or the number."""
        return self.named(None, prediction.value)

    def target(self, example: Example) -> npt.NDArray[np.generic]:
        """Return the gold for the loss."""
        return np.array(example.gold, np.float32)

    @abstractmethod
    def predict(self, id: str, logits: FloatArray) -> Prediction:
        """Return the prediction for one example from its logits."""


@dataclass(frozen=True)
class ClassificationForm(TextForm):
    """A text or a pair of texts -> one class."""

    kind = "classification"
    heads = ("classification",)
    recipe = "classification"
    main_metric = "accuracy"
    needs_labels = True

    labels: tuple[str, ...]

    def target(self, example: Example) -> npt.NDArray[np.generic]:
        """Return the class."""
        return np.array(example.gold, np.int64)

    def predict(self, id: str, logits: FloatArray) -> Prediction:
        """Take the likeliest class."""
        require_labels(len(logits), self.labels)
        return likeliest(id, logits)

    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        """Average probabilities."""
        return {"logits": mean_log_probability(outputs, "logits")}

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return ``label`` and ``scores``."""
        scores = dict(zip(self.labels, prediction.scores, strict=True))
        return {"label": self.written(prediction), "scores": scores}

    def read_label(self, value: object, example: Example, separator: str) -> int:
        """Read the name of a class."""
        return label_index(self.labels, str(value))

    def named(self, example: Example | None, value: object) -> object:
        """Return the name of the class."""
        assert isinstance(value, int)
        return self.labels[value]

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return accuracy, macro F1, Matthews correlation and, for two classes, F1."""
        gold, predicted = gold_and_predicted(examples, predictions)
        scores = {
            "accuracy": accuracy(gold, predicted),
            "f1_macro": macro_f1(gold, predicted, len(self.labels)),
            "matthews": matthews(gold, predicted),
        }
        if len(self.labels) == 2:
            scores["f1"] = f1(gold, predicted)
        return scores

    def items(self, value: object) -> set[tuple[object, ...]]:
        """Return the class."""
        return {(self.named(None, value),)}

    def confusion(self, examples: Examples, predictions: Predictions) -> dict[str, object]:
        """Return ``labels`` and counts ``matrix[gold][predicted]``."""
        matrix = confusion_matrix(*gold_and_predicted(examples, predictions), len(self.labels))
        return {"labels": list(self.labels), "matrix": matrix}


@dataclass(frozen=True)
class MultiLabelForm(TextForm):
    """A text or a pair of texts -> the labels of probability 0.5 or more, or none."""

    kind = "multi_label"
    heads = ("classification",)
    recipe = "classification"
    main_metric = "f1_micro"
    how_bad = "wrong labels"
    needs_labels = True
    multi_label = True

    labels: tuple[str, ...]

    def predict(self, id: str, logits: FloatArray) -> Prediction:
        """Take the labels that are as likely as not."""
        require_labels(len(logits), self.labels)
        probabilities = sigmoid(logits)
        flags = tuple(int(p >= 0.5) for p in probabilities)
        return Prediction(id, flags, tuple(probabilities.tolist()))

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return ``labels`` and ``scores``."""
        scores = dict(zip(self.labels, prediction.scores, strict=True))
        return {"labels": self.written(prediction), "scores": scores}

    def read_label(self, value: object, example: Example, separator: str) -> tuple[int, ...]:
        """Read a list of names, or names with separators between them."""
        chosen = {label_index(self.labels, name) for name in split_cell(value, separator)}
        return tuple(int(index in chosen) for index in range(len(self.labels)))

    def named(self, example: Example | None, value: object) -> list[str]:
        """Return the names of the labels."""
        assert isinstance(value, tuple)
        return [name for name, flag in zip(self.labels, value, strict=True) if flag]

    def items(self, value: object) -> set[tuple[object, ...]]:
        """Return the labels."""
        return {(name,) for name in self.named(None, value)}

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return micro and macro F1 and the share of examples with all labels right."""
        return multi_label_scores(*gold_and_predicted(examples, predictions))

    def badness(self, example: Example, prediction: Prediction) -> float:
        """Count the wrong labels."""
        return num_wrong(example, prediction)


@dataclass(frozen=True)
class RegressionForm(TextForm):
    """A text or a pair of texts -> a number."""

    kind = "regression"
    heads = ("regression",)
    recipe = "regression"
    main_metric = "pearson"
    how_bad = "error"

    def predict(self, id: str, logits: FloatArray) -> Prediction:
        """Take the number itself."""
        return Prediction(id, float(logits.reshape(())))

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return ``value``."""
        return {"value": prediction.value}

    def read_label(self, value: object, example: Example, separator: str) -> float:
        """Read a finite number."""
        return finite_number(value)

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return both correlations, the errors, and one negative so that more is better."""
        gold, predicted = gold_and_predicted(examples, predictions)
        error = gold - predicted
        squared = float(np.mean(error**2))
        return {
            "pearson": pearson(gold, predicted),
            "spearman": spearman(gold, predicted),
            "mae": float(np.mean(np.abs(error))),
            "rmse": math.sqrt(squared),
            "negative_mse": -squared,
        }

    def baseline(self, train: Examples, examples: Examples) -> list[Prediction]:
        """Always say the mean of the training data."""
        mean = float(gold_and_predicted(train, ())[0].mean())
        return [Prediction(example.id, mean) for example in examples]

    def badness(self, example: Example, prediction: Prediction) -> float:
        """Return the distance."""
        gold, predicted = gold_and_predicted([example], [prediction])
        return float(abs(gold - predicted)[0])


def likeliest(id: str, logits: FloatArray) -> Prediction:
    """Return the prediction of the likeliest class or choice."""
    probabilities = softmax(logits)
    return Prediction(id, int(probabilities.argmax()), tuple(probabilities.tolist()))


def label_index(labels: Sequence[str], value: str) -> int:
    """Return the index of a label's name."""
    value = value.strip()
    if value not in labels:
        if not value:
            raise RowError("missing label", "the cell is empty")
        shown = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
        raise RowError(UNKNOWN_LABEL, f"{value!r} is not one of {shown}", value)
    return labels.index(value)


def finite_number(value: object) -> float:
    """Return a cell as a number; ``4,5`` is one, ``1,234`` is not clear."""
    text = str(value).strip()
    if re.fullmatch(r"[-+]?\d+,(\d{1,2}|\d{4,})", text):
        text = text.replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RowError(UNKNOWN_LABEL, f"{value!r} is not a finite number", text)
    return number


def num_wrong(example: Example, prediction: Prediction) -> float:
    """Return how many labels or tags are wrong."""
    gold, predicted = gold_and_predicted([example], [prediction])
    return float((gold != predicted).sum())


def gold_and_predicted(examples: Examples, predictions: Predictions) -> tuple[Floats, Floats]:
    """Return classes, choices or scores [n], or label flags [n, num_labels], as numbers."""
    gold = np.array([example.gold for example in examples], np.float64)
    return gold, np.array([prediction.value for prediction in predictions], np.float64)
