"""The best of several answers to a question about a passage."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from litebert.tasks.base import (
    Example,
    Examples,
    Feature,
    Features,
    Form,
    Outputs,
    Prediction,
    Predictions,
)
from litebert.tasks.forms.arrays import mean_log_probability
from litebert.tasks.forms.requests import (
    Cells,
    RowError,
    optional_text,
    required_list,
    required_text,
)
from litebert.tasks.forms.rows import encode_unique, pair_row
from litebert.tasks.forms.texts import gold_and_predicted, likeliest
from litebert.tasks.metrics import accuracy
from litebert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChoiceForm(Form):
    """Passage, question and options -> the index of the best option.

    Args:
        max_question_length: pieces of question and option that are kept, from their end.
    """

    kind = "multiple_choice"
    heads = ("multiple_choice",)
    recipe = "choice"
    columns = ("text", "options", "label")
    main_metric = "accuracy"

    max_question_length: int = 128

    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Read ``text`` (the passage), ``question`` (may be left out) and ``options``."""
        return Example(
            id,
            required_text(record, "text"),
            optional_text(record, "question"),
            options=required_list(record, "options", at_least=2),
        )

    def read_row(self, cells: Cells, id: str) -> Example:
        """Read ``text``, ``question`` if it is named, and ``options`` from one or more columns."""
        options = cells.texts("options")
        if len(options) < 2:
            raise RowError("missing options", f"{len(options)} given, at least 2 needed")
        return Example(id, cells.text("text"), cells.optional_text("question"), options)

    def features(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> Features:
        """Return one feature per example with one row ``[CLS] passage [SEP] answer [SEP]`` each."""
        asked = [
            tuple(fill_question(example.text_pair or "", option) for option in example.options)
            for example in examples
        ]
        passages = (example.text for example in examples)
        encoded = encode_unique(chain(passages, *asked), tokenizer)
        longest = min(self.max_question_length, max_length - 3)
        features = []
        for index, (example, questions) in enumerate(zip(examples, asked, strict=True)):
            rows = []
            for question in questions:
                # As the official code: the end of the question (with the option) counts most, and
                # the passage gives way.
                kept = encoded[question][-longest:]
                passage = encoded[example.text][: max_length - 3 - len(kept)]
                rows.append(pair_row(passage, kept, tokenizer, max_length))
            target = None if example.gold is None else np.array(example.gold, np.int64)
            features.append(Feature(index, tuple(rows), target))
        return features

    def decode(
        self, examples: Examples, features: Features, outputs: Sequence[Outputs]
    ) -> list[Prediction]:
        """Take the likeliest option."""
        return [
            likeliest(examples[feature.example].id, output["logits"])
            for feature, output in zip(features, outputs, strict=True)
        ]

    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        """Average probabilities."""
        return {"logits": mean_log_probability(outputs, "logits")}

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return the index and text of the choice, and the probability of each option."""
        assert isinstance(prediction.value, int)
        return {
            "choice": prediction.value,
            "option": example.options[prediction.value],
            "scores": list(prediction.scores),
        }

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

    def named(self, example: Example | None, value: object) -> object:
        """Return the text of the option."""
        assert example is not None, "an option is one of its example's"
        assert isinstance(value, int)
        return example.options[value]

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return the accuracy."""
        return {"accuracy": accuracy(*gold_and_predicted(examples, predictions))}


def fill_question(question: str, option: str) -> str:
    """Return the question with each blank ``_`` filled, or followed by the option if it has none.

    >>> fill_question("We can _ it.", "see")
    'We can see it.'
    >>> fill_question("What is it?", "A light")
    'What is it? A light'
    """
    if "_" in question:
        return question.replace("_", option)
    return f"{question} {option}".strip()


def option_index(value: object, num_options: int) -> int | None:
    """Return the option that a letter or an index from 0 names, or None if there is none such.

    >>> option_index("B", 4), option_index("3", 4), option_index("E", 4)
    (1, 3, None)
    """
    text = str(value).strip().upper()
    if len(text) == 1 and text in string.ascii_uppercase:
        index = string.ascii_uppercase.index(text)
    elif text.isascii() and text.isdigit():
        index = int(text)
    else:
        return None
    return index if index < num_options else None
