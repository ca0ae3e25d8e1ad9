"""How near texts are in meaning: a vector for each, compared by their cosine."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from litebert.common.errors import InputError
from litebert.common.rng import rng
from litebert.model.config import Pooling
from litebert.tasks import base
from litebert.tasks.base import Example, Examples, Feature, Features, Form, Outputs, Prediction, Predictions, Said
from litebert.tasks.forms.requests import Cells, RowError, finite_number, required_text
from litebert.tasks.forms.rows import encode_unique, single_row
from litebert.tasks.metrics import Floats, pearson, retrieval_scores, spearman
from litebert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CORPUS = "corpus"  # group of an example that is only a text to be found, of no query
EQUAL = 1  # gold of two texts that mean the same, where there are no scores
_QUERIES_AT_ONCE = 512
_VECTORS = "vectors"
Compare = Callable[[Sequence[str], Sequence[str]], Floats]


@dataclass(frozen=True)
class Vectors:
    """Texts compared by the product of their vectors, dense or sparse."""

    places: Mapping[str, int]
    rows: base.FloatArray | csr_array  # [N, H], each of length 1

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """The cosine of each first text and its second; [N]."""
        return np.asarray((self._of(first) * self._of(second)).sum(axis=1), np.float64)

    def matrix(self, queries: Sequence[str], documents: Sequence[str]) -> Floats:
        """The cosine of each query and each document; [Q, D]."""
        found = self._of(queries) @ self._of(documents).T
        return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), np.float64)

    def _of(self, texts: Sequence[str]) -> base.FloatArray | csr_array:
        return self.rows[[self.places[text] for text in texts]]


@dataclass(frozen=True)
class SimilarityForm(Form):
    """Two texts -> the cosine of their vectors.

    Examples are pairs with a score (judged by correlation), pairs of equals with negatives in ``options`` (whether the
    equal one is nearer) or without (queries that have to find their document), or bare sentences to learn from.
    """

    kind = "similarity"
    heads = ("encoder",)
    recipe = "similarity"
    columns = ("text",)
    main_metric = "spearman"
    how_bad = "error"

    pooling: Pooling = "mean"
    score_range: tuple[float, float] | None = None  # of nothing in common, of the same; or cosines

    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Read ``text`` and ``text_pair``."""
        if record.get("text_pair") is None and record.get("text") is not None:
            raise InputError("similarity compares 'text' with 'text_pair'; for vectors use embed")
        return Example(id, required_text(record, "text"), required_text(record, "text_pair"))

    def read_row(self, cells: Cells, id: str) -> Example:
        """Read ``text`` and, as far as they are named, ``text_pair`` and ``negatives``."""
        return Example(id, cells.text("text"), cells.optional_text("text_pair"), cells.each("negatives"))

    def read_gold(self, cells: Cells, example: Example) -> base.Gold:
        """Read the score, if there is one."""
        return super().read_gold(cells, example) if cells.has("label") else EQUAL

    def read_label(self, value: object, example: Example, separator: str) -> float:
        """Read a number in the range of scores."""
        number = finite_number(value)
        low, high = self.score_range or (-math.inf, math.inf)
        if not low <= number <= high:
            raise RowError("score outside score_range", f"{number:g} is not in {low:g} to {high:g}")
        return number

    def read_prediction(self, value: object, example: Example, separator: str) -> float:
        """Read a cosine, a margin or a rank."""
        return finite_number(value)

    def features(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> Features:
        """Return one feature per example, a row for each of its texts; equal texts share theirs."""
        texts = [self.texts_of(example) for example in examples]
        encoded = encode_unique((text for found in texts for text in found), tokenizer)
        numbers = {text: number for number, text in enumerate(encoded)}
        rows = {text: single_row(ids, tokenizer, max_length) for text, ids in encoded.items()}
        features = []
        for index, (example, found) in enumerate(zip(examples, texts, strict=True)):
            target: npt.NDArray[np.generic] | None = None
            if isinstance(example.gold, float):
                target = np.array(self._cosine(example.gold), np.float32)
            elif example.gold is not None:
                target = np.array([numbers[text] for text in found], np.int64)
            features.append(Feature(index, tuple(rows[text] for text in found), target))
        return features

    def texts_of(self, example: Example) -> list[str]:
        """Return the texts of an example, one for each row of its feature."""
        if example.text_pair is not None:
            return [example.text, example.text_pair, *example.options]
        # A sentence to learn from has two views, which differ by dropout.
        return [example.text] * (1 if example.group == CORPUS else 2)

    def outputs(self, available: frozenset[str]) -> tuple[str, ...]:
        """Return the states of all tokens: any model of this family has them."""
        return ("last_hidden_state",)

    def condensed(self, outputs: Outputs) -> Outputs:
        """Return the vector of a row, [1, H], of length 1."""
        states_SH = outputs["last_hidden_state"]
        pooled = states_SH.mean(axis=0) if self.pooling == "mean" else states_SH[0]
        return {_VECTORS: (pooled / max(float(np.linalg.norm(pooled)), 1e-12))[None]}

    def decode(self, examples: Examples, features: Features, said: Said) -> list[Prediction]:
        """Compare the vectors of the texts."""
        places: dict[str, int] = {}
        found: list[base.FloatArray] = []
        for feature, output in zip(features, said, strict=True):
            texts = self.texts_of(examples[feature.example])
            for text, vector in zip(texts, output[_VECTORS], strict=True):
                if places.setdefault(text, len(found)) == len(found):
                    found.append(vector)
        vectors = Vectors(places, np.stack(found))
        return compared(examples, vectors.pairs, vectors.matrix)

    def combine(self, outputs: Said) -> Outputs:
        """Put the vectors side by side: their cosine is the mean of the models'."""
        joined = np.concatenate([said[_VECTORS] for said in outputs], axis=1)
        return {_VECTORS: np.asarray(joined / math.sqrt(len(outputs)), np.float32)}

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return ``similarity`` and, of pairs of equals, ``rank`` or ``margin``."""
        shown: dict[str, object] = dict(zip(("similarity",), prediction.scores, strict=False))
        kind = answer_of(example)
        return shown if kind == "similarity" else {**shown, kind: prediction.value}

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return correlations, accuracy, or recall, MRR and nDCG, by what the examples are."""
        asked = [(e, float(str(p.value))) for e, p in zip(examples, predictions, strict=True) if e.group != CORPUS]
        values = [value for _, value in asked]
        kind = answer_of(asked[0][0])
        if kind == "similarity":
            gold = [float(str(example.gold)) for example, _ in asked]
            return {"spearman": spearman(gold, values), "pearson": pearson(gold, values)}
        if kind == "margin":
            return {"accuracy": float(np.mean([value > 0 for value in values]))}
        ranks: dict[str, list[float]] = defaultdict(list)
        for example, value in asked:
            ranks[example.text].append(value)
        return retrieval_scores(list(ranks.values()))

    def baseline(self, train: Examples, examples: Examples) -> list[Prediction]:
        """Guess: any similarity, any side, any rank."""
        documents = {example.text_pair or example.text for example in examples}
        chance = rng(0, "chance").random(len(examples))
        values = 1 + np.floor(chance * len(documents)) if answer_of(examples[0]) == "rank" else chance - 0.5
        return [Prediction(e.id, float(v)) for e, v in zip(examples, values, strict=True)]

    def badness(self, example: Example, prediction: Prediction) -> float:
        """Return the error on the cosine, how much a negative is nearer, or how many texts are."""
        value = float(str(prediction.value))
        if isinstance(example.gold, float):
            return abs(value - self._cosine(example.gold))
        if example.group == CORPUS:
            return 0.0
        return max(0.0, -value if example.options else value - 1)

    def _cosine(self, score: float) -> float:
        low, high = self.score_range or (0.0, 1.0)
        return (score - low) / (high - low)


def answer_of(example: Example) -> Literal["similarity", "margin", "rank"]:
    """Return what is predicted: a similarity, or of equals a margin over negatives or a rank."""
    if example.gold is None or isinstance(example.gold, float):
        return "similarity"
    return "margin" if example.options else "rank"


def compared(examples: Examples, pairs: Compare, matrix: Compare) -> list[Prediction]:
    """Predict: a cosine for a score (or no gold), a margin over negatives, or else a rank.

    ``pairs`` says how near each text is to the second at its place, ``matrix`` how near to each of them.
    """
    second = [example.text if example.text_pair is None else example.text_pair for example in examples]
    similarities = pairs([example.text for example in examples], second)
    values = similarities.copy()
    for index, example in enumerate(examples):
        if example.options:
            values[index] -= pairs([example.text] * len(example.options), example.options).max()
    documents = {text: place for place, text in enumerate(dict.fromkeys(second))}
    queries = [index for index, e in enumerate(examples) if answer_of(e) == "rank" and e.group != CORPUS]
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        part = queries[start : start + _QUERIES_AT_ONCE]
        scores = matrix([examples[index].text for index in part], list(documents))
        own = np.array([documents[second[index]] for index in part])
        right = scores[np.arange(len(part)), own][:, None]
        # Of equals the earlier document comes first, as in a stable sort.
        before = (scores > right) | ((scores == right) & (np.arange(len(documents)) < own[:, None]))
        values[part] = 1 + before.sum(axis=1)
    found = zip(examples, values, similarities, strict=True)
    return [Prediction(e.id, float(value), (float(near),)) for e, value, near in found]
