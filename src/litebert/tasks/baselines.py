"""What fine-tuning has to beat: linear models of words or of any vectors, idf and BM25."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from litebert.common.errors import ConfigError
from litebert.tasks.base import Examples, FloatArray, Form, Prediction
from litebert.tasks.forms.similarity import Vectors, answer_of, compared
from litebert.tasks.metrics import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    Matrix: TypeAlias = FloatArray | csr_matrix

_WORD = r"\w+|[^\w\s]"
_MOST_WORDS = 200_000  # columns of a bag of words, the most frequent ones: bounds the memory


def is_linear(form: Form) -> bool:
    """Whether a linear model can do the task: a class or a number for a text or a pair."""
    return form.kind in ("classification", "regression")


def word_predictions(form: Form, train: Examples, examples: Examples) -> list[Prediction]:
    """Predict from counts of words in lower case, those of a pair's two texts apart."""
    return linear_predictions(form, train, examples, *bags_of_words(train, examples))


def word_vectors(examples: Examples) -> Vectors:
    """Compare texts by the words they share, rare ones counting more: cosines of tf-idf."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import TfidfVectorizer

    found = (text for e in examples for text in (e.text, e.text_pair, *e.options))
    texts = list(dict.fromkeys(text for text in found if text is not None))
    counter = TfidfVectorizer(token_pattern=_WORD, max_features=_MOST_WORDS)
    places = {text: place for place, text in enumerate(texts)}
    return Vectors(places, csr_array(counter.fit_transform(texts)))


class Bm25:
    """The score of each document for each query, with the defaults of the library ``bm25s``; indexes documents once."""

    def __init__(self) -> None:
        try:
            import bm25s
        except ModuleNotFoundError:
            raise ConfigError("baseline bm25 needs the package bm25s: pip install bm25s") from None
        self._index, self._indexed = bm25s.BM25(), list[str]()

    def __call__(self, queries: Sequence[str], documents: Sequence[str]) -> Floats:
        """Return the scores, [queries, documents]."""
        if self._indexed != documents:
            self._indexed = list(documents)
            self._index.index([_words(text) for text in documents], show_progress=False)
        return np.stack([np.asarray(self._index.get_scores(_words(text)), np.float64) for text in queries])


def _words(text: str) -> list[str]:
    return re.findall(_WORD, text.lower())


def baseline_of(name: str, form: Form, train: Examples, examples: Examples) -> list[Prediction] | None:
    """Predict from words alone (``words``) or by BM25 (``bm25``); None where it does not apply."""
    if form.kind != "similarity":
        return word_predictions(form, train, examples) if name == "words" and is_linear(form) else None
    if name == "words":
        vectors = word_vectors(examples)
        return compared(examples, vectors.pairs, vectors.matrix)
    if answer_of(examples[0]) != "rank":
        return None
    # Of pairs it says nothing: its scores are not on one scale.
    return compared(examples, lambda first, _: np.zeros(len(first)), Bm25())


def linear_predictions(
    form: Form, train: Examples, examples: Examples, train_vectors: Matrix, vectors: Matrix
) -> list[Prediction]:
    """Predict by logistic regression, or ridge for numbers; dense vectors are standardised by the training examples."""
    from sklearn.linear_model import LogisticRegression, Ridge

    assert is_linear(form), "callers ask first"
    golds = [example.gold for example in train]
    if isinstance(train_vectors, np.ndarray):
        mean, deviation = train_vectors.mean(0), train_vectors.std(0) + 1e-6
        train_vectors, vectors = (train_vectors - mean) / deviation, (vectors - mean) / deviation
    if form.kind == "regression":
        ridge = Ridge(alpha=1.0).fit(train_vectors, golds)
        values: list[float] = ridge.predict(vectors).tolist()
    elif len(set(golds)) == 1:
        return form.baseline(train, examples)
    else:
        model = LogisticRegression(C=1.0, max_iter=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that ends at its last iteration is good enough
            model.fit(train_vectors, golds)
        values = model.predict(vectors).tolist()
    return [Prediction(e.id, value) for e, value in zip(examples, values, strict=True)]


def bags_of_words(train: Examples, examples: Examples) -> tuple[csr_matrix, csr_matrix]:
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
