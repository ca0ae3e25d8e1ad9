"""What fine-tuning has to beat: linear models of words or of any vectors, idf and BM25."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from litebert.common.errors import ConfigError
from litebert.tasks.base import Example, FloatArray, Form, Prediction
from litebert.tasks.forms.similarity import compared
from litebert.tasks.metrics import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

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


class WordOverlap:
    """Texts compared by the words they share, rare ones counting more: cosines of tf-idf."""

    def __init__(self, examples: Sequence[Example]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        found = (text for e in examples for text in (e.text, e.text_pair, *e.options))
        texts = list(dict.fromkeys(text for text in found if text is not None))
        counter = TfidfVectorizer(token_pattern=_WORD, max_features=_MOST_WORDS)
        self.places = {text: place for place, text in enumerate(texts)}
        self.rows = counter.fit_transform(texts)

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """Their cosines."""
        return np.asarray(self._of(first).multiply(self._of(second)).sum(axis=1)).ravel()

    def matrix(self, queries: Sequence[str], documents: Sequence[str]) -> Floats:
        """All cosines."""
        return np.asarray((self._of(queries) @ self._of(documents).T).todense())

    def _of(self, texts: Sequence[str]) -> csr_matrix:
        return self.rows[[self.places[text] for text in texts]]


class Bm25:
    """Documents found by BM25, with the defaults of the library ``bm25s``; nothing else."""

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """Nothing: its scores are not on one scale."""
        return np.zeros(len(first))

    def matrix(self, queries: Sequence[str], documents: Sequence[str]) -> Floats:
        """The score of each document for each query."""
        try:
            import bm25s
        except ModuleNotFoundError:
            raise ConfigError("baseline bm25 needs the package bm25s: pip install bm25s") from None
        index = bm25s.BM25()
        words = [re.findall(_WORD, text.lower()) for text in documents]
        index.index(words, show_progress=False)
        asked = (re.findall(_WORD, text.lower()) for text in queries)
        return np.stack([np.asarray(index.get_scores(one), np.float64) for one in asked])


def baseline_of(
    name: str, form: Form, train: Sequence[Example], examples: Sequence[Example]
) -> list[Prediction] | None:
    """Predict from words alone (``words``) or by BM25 (``bm25``); None where it does not apply."""
    if form.kind == "similarity" and name == "words":
        return compared(examples, WordOverlap(examples))
    if form.kind == "similarity":
        is_ranked = not isinstance(examples[0].gold, float) and not examples[0].options
        return compared(examples, Bm25()) if is_ranked else None
    is_possible = name == "words" and is_linear(form)
    return word_predictions(form, train, examples) if is_possible else None


def linear_predictions(
    form: Form,
    train: Sequence[Example],
    examples: Sequence[Example],
    train_vectors: FloatArray | csr_matrix,
    vectors: FloatArray | csr_matrix,
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
    """Sparse word counts [N, words] of training and other examples; a pair's texts apart."""
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
