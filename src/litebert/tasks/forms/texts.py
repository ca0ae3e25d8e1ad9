"""Classes, label sets or a number for a text or a pair of texts; the best of several answers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from string import ascii_uppercase
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from litebert.tasks import metrics
from litebert.tasks.base import Example, Examples, Feature, Features, FloatArray, Form, Prediction, Predictions, Said
from litebert.tasks.forms import requests
from litebert.tasks.forms.arrays import require_labels, sigmoid, softmax
from litebert.tasks.forms.requests import Cells, RowError
from litebert.tasks.forms.rows import encode_unique, pair_row, single_row
from litebert.tasks.metrics import Floats
from litebert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextForm(Form):
    """A text or a pair of texts -> what one vector of the model says."""

    columns: ClassVar[tuple[str, ...]] = ("text", "label")
    answer: ClassVar[str]  # what a request's answer calls the prediction

    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Read ``text`` and, for pairs, ``text_pair``."""
        return Example(id, requests.required_text(record, "text"), requests.optional_text(record, "text_pair"))

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
            features.append(Feature(index, (row,), self.target(example)))
        return features

    def decode(self, examples: Examples, features: Features, said: Said) -> list[Prediction]:
        """Read the logits of each example."""
        return [
            self.predict(examples[feature.example].id, output["logits"])
            for feature, output in zip(features, said, strict=True)
        ]

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return the answer and, of labels, ``scores``."""
        described = {self.answer: self.written(prediction)}
        if self.needs_labels:
            described["scores"] = dict(zip(self.labels, prediction.scores, strict=True))
        return described

    def target(self, example: Example) -> npt.NDArray[np.generic] | None:
        """Return the gold for the loss, if there is one."""
        return None if example.gold is None else np.array(example.gold, np.int64 if self.one_of_several else np.float32)

    @abstractmethod
    def predict(self, id: str, logits: FloatArray) -> Prediction:
        """Return the prediction for one example from its logits."""


@dataclass(frozen=True)
class OneOfSeveral(TextForm):
    """A form whose answer is the likeliest class or option."""

    main_metric = "accuracy"
    one_of_several = True

    def predict(self, id: str, logits: FloatArray) -> Prediction:
        """Take the likeliest one."""
        if self.needs_labels:
            require_labels(len(logits), self.labels)
        probabilities = softmax(logits)
        return Prediction(id, int(probabilities.argmax()), tuple(probabilities.tolist()))


@dataclass(frozen=True)
class ClassificationForm(OneOfSeveral):
    """A text or a pair of texts -> one class."""

    kind = "classification"
    heads = ("classification",)
    recipe = "classification"
    answer = "label"
    needs_labels = True

    def read_label(self, value: object, example: Example, separator: str) -> int:
        """Read the name of a class."""
        return requests.label_index(self.labels, str(value))

    def named(self, example: Example | None, value: object) -> object:
        """Return the name of the class."""
        assert isinstance(value, int)
        return self.labels[value]

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return accuracy, macro F1, Matthews correlation and, for two classes, F1."""
        found = gold_and_predicted(examples, predictions)
        scores = {
            "accuracy": metrics.accuracy(*found),
            "f1_macro": metrics.macro_f1(*found, len(self.labels)),
            "matthews": metrics.matthews(*found),
        }
        return scores | ({"f1": metrics.f1(*found)} if len(self.labels) == 2 else {})

    def items(self, value: object) -> set[tuple[object, ...]]:
        """Return the class."""
        return {(self.named(None, value),)}

    def confusion(self, examples: Examples, predictions: Predictions) -> dict[str, object]:
        """Return ``labels`` and counts ``matrix[gold][predicted]``."""
        matrix = metrics.confusion_matrix(*gold_and_predicted(examples, predictions), len(self.labels))
        return {"labels": list(self.labels), "matrix": matrix}


@dataclass(frozen=True)
class MultiLabelForm(TextForm):
    """A text or a pair of texts -> the labels of probability 0.5 or more, or none."""

    kind = "multi_label"
    heads = ("classification",)
    recipe = "classification"
    main_metric = "f1_micro"
    answer = "labels"
    how_bad = "wrong labels"
    needs_labels = True
    multi_label = True

    def predict(self, id: str, logits: FloatArray) -> Prediction:
        """Take the labels that are as likely as not."""
        require_labels(len(logits), self.labels)
        probabilities = sigmoid(logits)
        return Prediction(id, tuple(int(p >= 0.5) for p in probabilities), tuple(probabilities.tolist()))

    def read_label(self, value: object, example: Example, separator: str) -> tuple[int, ...]:
        """Read a list of names, or names with separators between them."""
        chosen = {requests.label_index(self.labels, name) for name in requests.split_cell(value, separator)}
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
        return metrics.multi_label_scores(*gold_and_predicted(examples, predictions))


@dataclass(frozen=True)
class RegressionForm(TextForm):
    """A text or a pair of texts -> a number."""

    kind = "regression"
    heads = ("regression",)
    recipe = "regression"
    main_metric = "pearson"
    answer = "value"
    how_bad = "error"

    def predict(self, id: str, logits: FloatArray) -> Prediction:
        """Take the number itself."""
        return Prediction(id, float(logits.reshape(())))

    def read_label(self, value: object, example: Example, separator: str) -> float:
        """Read a finite number."""
        return requests.finite_number(value)

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return both correlations, the errors, and one negative so that more is better."""
        gold, predicted = gold_and_predicted(examples, predictions)
        squared = float(np.mean((gold - predicted) ** 2))
        return {
            "pearson": metrics.pearson(gold, predicted),
            "spearman": metrics.spearman(gold, predicted),
            "mae": float(np.mean(np.abs(gold - predicted))),
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


@dataclass(frozen=True)
class ChoiceForm(OneOfSeveral):
    """Passage, question and options -> the index of the best option."""

    kind = "multiple_choice"
    heads = ("multiple_choice",)
    recipe = "choice"
    columns = ("text", "options", "label")

    max_question_length: int = 128  # pieces of question and option that are kept, from their end

    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Read ``text`` (the passage), ``question`` (may be left out) and ``options``."""
        text, question = requests.required_text(record, "text"), requests.optional_text(record, "question")
        return Example(id, text, question, requests.required_list(record, "options", at_least=2))

    def read_row(self, cells: Cells, id: str) -> Example:
        """Read ``text``, ``question`` if it is named, and ``options`` from one or more columns."""
        options = cells.texts("options")
        if len(options) < 2:
            raise RowError("missing options", f"{len(options)} given, at least 2 needed")
        return Example(id, cells.text("text"), cells.optional_text("question"), options)

    def features(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> Features:
        """Return one feature per example with one row ``[CLS] passage [SEP] answer [SEP]`` each."""
        asked = [[fill_question(e.text_pair or "", option) for option in e.options] for e in examples]
        encoded = encode_unique(chain((e.text for e in examples), *asked), tokenizer)
        longest = min(self.max_question_length, max_length - 3)
        features = []
        for index, (example, questions) in enumerate(zip(examples, asked, strict=True)):
            rows = []
            for question in questions:
                # As the official code: the end of the question (with the option) counts most; the passage gives way.
                kept = encoded[question][-longest:]
                passage = encoded[example.text][: max_length - 3 - len(kept)]
                rows.append(pair_row(passage, kept, tokenizer, max_length))
            features.append(Feature(index, tuple(rows), self.target(example)))
        return features

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return the index and text of the choice, and the probability of each option."""
        option = self.named(example, prediction.value)
        return {"choice": prediction.value, "option": option, "scores": list(prediction.scores)}

    def read_label(self, value: object, example: Example, separator: str) -> int:
        """Read the text, the letter or the index from 0 of an option."""
        options, text = example.options, str(value).strip()
        by_text = options.index(text) if text in options else None
        by_name = option_index(text, len(options))
        index = by_name if by_text is None else by_text
        if index is None:
            raise RowError("unknown label", f"{value!r} is not an option's text, letter or index")
        if by_name not in (None, index):
            detail = f"{value!r} is the text of option {by_text} and the name of option {by_name}"
            raise RowError("ambiguous label", detail)
        return index

    def read_prediction(self, value: object, example: Example, separator: str) -> int:
        """Read an index as we write it, or what a label may be."""
        # The options may be numbers too: ours is an index, whatever they say.
        index = option_index(value, len(example.options)) if isinstance(value, int) else None
        return self.read_label(value, example, separator) if index is None else index

    def written(self, prediction: Prediction) -> object:
        """Return the index of the option, from 0."""
        return prediction.value

    def named(self, example: Example | None, value: object) -> object:
        """Return the text of the option."""
        assert example is not None, "an option is one of its example's"
        assert isinstance(value, int)
        return example.options[value]

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return the accuracy."""
        return {"accuracy": metrics.accuracy(*gold_and_predicted(examples, predictions))}


def gold_and_predicted(examples: Examples, predictions: Predictions) -> tuple[Floats, Floats]:
    """Return classes, choices or scores [n], or label flags [n, num_labels], as numbers."""
    gold = np.array([example.gold for example in examples], np.float64)
    return gold, np.array([prediction.value for prediction in predictions], np.float64)


def fill_question(question: str, option: str) -> str:
    """Return the question with each blank ``_`` filled, or followed by the option if it has none.

    >>> fill_question("We can _ it.", "see"), fill_question("What is it?", "A light")
    ('We can see it.', 'What is it? A light')
    """
    return question.replace("_", option) if "_" in question else f"{question} {option}".strip()


def option_index(value: object, num_options: int) -> int | None:
    """Return the option that a letter or an index from 0 names, or None if there is none such.

    >>> option_index("B", 4), option_index("3", 4), option_index("E", 4)
    (1, 3, None)
    """
    text = str(value).strip().upper()
    if len(text) == 1 and text in ascii_uppercase:
        index = ascii_uppercase.index(text)
    elif text.isascii() and text.isdigit():
        index = int(text)
    else:
        return None
    return index if index < num_options else None
