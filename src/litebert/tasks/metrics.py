"""Classification, correlation and tagging metrics with numpy alone, equal to scikit-learn's and scipy's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from litebert.common.errors import DataError

Floats = npt.NDArray[np.float64]
LOWER_IS_BETTER = ("mae", "rmse")  # scores that are errors: they do not pick a checkpoint
Values = Sequence[float] | Sequence[int] | npt.NDArray[np.generic]


def accuracy(gold: Values, predicted: Values) -> float:
    """Return the share of equal entries."""
    gold_array, predicted_array = _aligned(gold, predicted)
    return float(np.mean(gold_array == predicted_array))


def f1(gold: Values, predicted: Values, positive: int = 1) -> float:
    """Return the F1 of class ``positive``; 0 if it is neither gold nor predicted."""
    is_gold, is_said = (values == positive for values in _aligned(gold, predicted))
    counts = (int(found.sum()) for found in (is_gold & is_said, is_said, is_gold))
    return precision_recall_f1(*counts)["f1"]


def macro_f1(gold: Values, predicted: Values, num_labels: int) -> float:
    """Return the mean F1 over the classes that occur in gold or predictions."""
    present = np.union1d(np.asarray(gold), np.asarray(predicted))
    return float(np.mean([f1(gold, predicted, k) for k in range(num_labels) if k in present]))


def matthews(gold: Values, predicted: Values) -> float:
    """Return the Matthews correlation of any number of classes; 0 if either side is constant."""
    classes, codes = np.unique(np.stack(_aligned(gold, predicted)), return_inverse=True)
    gold_codes, predicted_codes = codes.reshape(2, -1)
    confusion = np.array(confusion_matrix(gold_codes, predicted_codes, len(classes)), np.float64)
    gold_counts, predicted_counts, total = confusion.sum(axis=1), confusion.sum(axis=0), float(confusion.sum())
    covariance = float(np.trace(confusion)) * total - gold_counts @ predicted_counts
    gold_spread = total**2 - gold_counts @ gold_counts
    predicted_spread = total**2 - predicted_counts @ predicted_counts
    if gold_spread == 0 or predicted_spread == 0:
        return 0.0
    return float(covariance / np.sqrt(gold_spread * predicted_spread))


def pearson(gold: Values, predicted: Values) -> float:
    """Return the linear correlation; 0 if either side is constant (scipy: nan)."""
    gold_array, predicted_array = _aligned(gold, predicted)
    x, y = gold_array - gold_array.mean(), predicted_array - predicted_array.mean()
    norm = np.sqrt(x @ x) * np.sqrt(y @ y)
    # Equal values differ from their mean by rounding: their norm is not quite 0.
    is_constant = np.ptp(gold_array) == 0 or np.ptp(predicted_array) == 0 or norm == 0
    return 0.0 if is_constant else float(np.clip(x @ y / norm, -1.0, 1.0))


def spearman(gold: Values, predicted: Values) -> float:
    """Return the rank correlation; equal values share their mean rank."""
    return pearson(_mean_ranks(gold), _mean_ranks(predicted))


def multi_label_scores(gold: Floats, predicted: Floats) -> dict[str, float]:
    """Return micro and macro F1 and the share of rows all right, of 0 or 1 [examples, labels]."""
    labels = zip(gold.T, predicted.T, strict=True)
    return {
        "f1_micro": f1(gold.ravel(), predicted.ravel()),
        "f1_macro": float(np.mean([f1(*label) for label in labels])),
        "exact_match": float(np.mean(np.all(gold == predicted, axis=1))),
    }


def retrieval_scores(ranks: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return recall, MRR and nDCG as means over queries, of the ranks (from 1) at which each one's documents stand."""
    found = {f"recall_at_{k}": [sum(r <= k for r in own) / len(own) for own in ranks] for k in (1, 10, 100)}
    found["mrr"] = [1 / min(own) for own in ranks]
    found["ndcg_at_10"] = [_gain(own) / _gain(range(1, len(own) + 1)) for own in ranks]
    return {name: float(np.mean(values)) for name, values in found.items()}


def _gain(ranks: Iterable[float]) -> float:
    return sum(1 / math.log2(1 + rank) for rank in ranks if rank <= 10)


_SAME_PREFIX = {"L": "E", "U": "S", "M": "I", "W": "S"}
_PREFIXES = frozenset("BIESO") | _SAME_PREFIX.keys()


def check_tags(tags: Sequence[str], source: str) -> None:
    """Refuse tags with the prefix at their end: they would be scored as something else."""
    parts = [tag.rpartition("-") for tag in tags if "-" in tag]
    if any(first not in _PREFIXES and last in _PREFIXES for first, _, last in parts):
        raise DataError(f"{source}: tags such as {', '.join(tags[:4])}: write B-PER, not PER-B")


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return the entities (type, first word, one past the last) that tags of any scheme mark.

    IOB1, IOB2, IOBES, BILOU (L and U are E and S) and BMES (M is I, W is S), as seqeval and the CoNLL script read them:
    an ``I-X`` that does not continue an entity of type X begins one, and so does an ``E-X``.
    """
    found: set[tuple[str, int, int]] = set()
    kind, begin, previous = "", 0, "O"
    for position, tag in enumerate([*tags, "O"]):
        prefix, dash, current = tag.partition("-")
        if not dash:  # plain "B"/"I" mark one unnamed type; any other tag is a type of its own
            prefix, current = (tag, "_") if tag in _PREFIXES else ("B", tag)
        prefix = _SAME_PREFIX.get(prefix, prefix)
        starts = prefix in ("B", "S") or current != kind or previous in ("E", "S")
        if kind and (prefix == "O" or starts):
            found.add((kind, begin, position))
            kind = ""
        if prefix != "O" and not kind:
            kind, begin = current, position
        previous = prefix
    return found


def entity_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return precision, recall and F1 over whole entities, and the accuracy over words."""
    counts, is_right = np.zeros(3, np.int64), list[bool]()
    for gold_tags, tags in zip(gold, predicted, strict=True):
        wanted, found = entities(gold_tags), entities(tags)
        counts += (len(wanted & found), len(found), len(wanted))
        is_right += (one == other for one, other in zip(gold_tags, tags, strict=True))
    share = sum(is_right) / len(is_right) if is_right else 0.0
    return {**precision_recall_f1(*counts.tolist()), "accuracy": share}


def precision_recall_f1(right: int, num_predicted: int, num_gold: int) -> dict[str, float]:
    """Return precision, recall and F1 of what was found; 0 where there is nothing to divide by."""
    return {
        "precision": right / num_predicted if num_predicted else 0.0,
        "recall": right / num_gold if num_gold else 0.0,
        "f1": 2 * right / (num_predicted + num_gold) if num_predicted + num_gold else 0.0,
    }


def confusion_matrix(gold: Values, predicted: Values, num_labels: int) -> list[list[int]]:
    """Return counts [gold][predicted]."""
    matrix = np.zeros((num_labels, num_labels), np.int64)
    np.add.at(matrix, (np.asarray(gold, np.int64), np.asarray(predicted, np.int64)), 1)
    return [[int(count) for count in row] for row in matrix]


def _mean_ranks(values: Values) -> Floats:
    _, codes, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[codes], np.float64)


def _aligned(gold: Values, predicted: Values) -> tuple[Floats, Floats]:
    gold_array, predicted_array = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    assert gold_array.shape == predicted_array.shape, "as many predictions as gold values"
    assert gold_array.size, "a metric needs at least one value"
    return gold_array, predicted_array
