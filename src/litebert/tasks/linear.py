"""Linear models of a task: on its words alone, or on any vectors; what fine-tuning has to beat."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from litebert.tasks.base import Example, Form, Prediction

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Vectors = npt.NDArray[np.float32]
"""[N, D], one row per example."""

_WORD = r"\w+|[^\w\s]"
_MOST_WORDS = 200_000
"""Columns of a bag of words at most, the most frequent ones: bounds the memory."""
_REGULARISATION = 1.0
_ITERATIONS = 500


def is_linear(form: Form) -> bool:
    """Whether a linear model can do the task: a class or a number for a text or a pair."""
    return form.kind in ("classification", "regression")


def word_predictions(
    form: Form, train: Sequence[Example], examples: Sequence[Example]
) -> list[Prediction]:
    """Predict from counts of words in lower case, those of a pair's two texts apart."""
    return linear_predictions(form, train, examples, *bags_of_words(train, examples))


def linear_predictions(
    form: Form,
    train: Sequence[Example],
    examples: Sequence[Example],
    train_vectors: Vectors | csr_matrix,
    vectors: Vectors | csr_matrix,
) -> list[Prediction]:
    """Fit logistic regression, or ridge for numbers, on training examples, and predict others.

    Dense vectors are standardised by the training examples; counts are taken as they are.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    assert is_linear(form), "callers ask first"
    golds = [example.gold for example in train]
    if isinstance(train_vectors, np.ndarray):
        mean, deviation = train_vectors.mean(0), train_vectors.std(0) + 1e-6
        train_vectors, vectors = (train_vectors - mean) / deviation, (vectors - mean) / deviation
    if form.kind == "regression":
        ridge = Ridge(alpha=_REGULARISATION).fit(train_vectors, golds)
        values = [float(value) for value in ridge.predict(vectors)]
    elif len(set(golds)) == 1:
        return form.baseline(train, examples)
    else:
        model = LogisticRegression(C=_REGULARISATION, max_iter=_ITERATIONS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that ends at its last iteration is good enough
            model.fit(train_vectors, golds)
        values = [int(value) for value in model.predict(vectors)]
    return [Prediction(e.id, value) for e, value in zip(examples, values, strict=True)]


def bags_of_words(
    train: Sequence[Example], examples: Sequence[Example]
) -> tuple[csr_matrix, csr_matrix]:
    """Counts of the words of the training examples, for these and for others; sparse [N, words].

    The second texts of pairs have columns of their own.
    """
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import CountVectorizer

    parts = [([e.text for e in train], [e.text for e in examples])]
    if any(example.text_pair is not None for example in train):
        parts.append(([e.text_pair or "" for e in train], [e.text_pair or "" for e in examples]))
    found = []
    for train_texts, texts in parts:
        counter = CountVectorizer(token_pattern=_WORD, max_features=_MOST_WORDS, dtype=np.float32)
        found.append((counter.fit_transform(train_texts), counter.transform(texts)))
    train_bags, bags = (hstack(columns).tocsr() for columns in zip(*found, strict=True))
    return train_bags, bags
