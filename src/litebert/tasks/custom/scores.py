"""The metrics of a user's own task, by kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from litebert.common.errors import DataError
from litebert.tasks.base import Answer, Example, Prediction
from litebert.tasks.custom.config import CustomConfig, CustomKind
from litebert.tasks.metrics import (
    accuracy,
    entity_scores,
    f1,
    macro_f1,
    matthews,
    mean_squared_error,
    multi_label_scores,
    pearson,
    spearman,
)
from litebert.tasks.squad_metrics import squad1_scores, squad2_scores

_MAIN_METRIC: dict[CustomKind, str] = {
    "classification": "accuracy",
    "pair_classification": "accuracy",
    "multi_label": "f1_micro",
    "regression": "pearson",
    "multiple_choice": "accuracy",
    "span_extraction": "f1",
    "token_classification": "f1",
}


def main_metric(config: CustomConfig) -> str:
    """Return the usual main metric of the kind."""
    return _MAIN_METRIC[config.kind]


def score(
    config: CustomConfig, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> dict[str, float]:
    """Return all metrics of the kind; fractions, but percent for spans as in SQuAD."""
    unlabelled = next((example for example in examples if example.gold is None), None)
    if unlabelled is not None:
        raise DataError(
            f"task {config.name}: row {unlabelled.id} has no label, so nothing to score"
        )
    if config.kind == "span_extraction":
        return _span_scores(config, examples, predictions)
    if config.kind == "token_classification":
        return entity_scores(
            [_names(config, example.gold) for example in examples],
            [_names(config, prediction.value) for prediction in predictions],
        )
    if config.kind == "multi_label":
        return multi_label_scores(
            np.array([example.gold for example in examples], np.int64),
            np.array([prediction.value for prediction in predictions], np.int64),
        )
    gold = [_number(example.gold) for example in examples]
    predicted = [_number(prediction.value) for prediction in predictions]
    if config.kind == "regression":
        return {
            "pearson": pearson(gold, predicted),
            "spearman": spearman(gold, predicted),
            "negative_mse": -mean_squared_error(gold, predicted),
        }
    if config.kind == "multiple_choice":
        return {"accuracy": accuracy(gold, predicted)}
    scores = {
        "accuracy": accuracy(gold, predicted),
        "f1_macro": macro_f1(gold, predicted, len(config.labels)),
        "matthews": matthews(gold, predicted),
    }
    if len(config.labels) == 2:
        scores["f1"] = f1(gold, predicted)
    return scores


def _span_scores(
    config: CustomConfig, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> dict[str, float]:
    golds = {
        example.id: [a.text for a in _tuple(example.gold) if isinstance(a, Answer)]
        for example in examples
    }
    answers = {prediction.id: str(prediction.value) for prediction in predictions}
    return squad2_scores(golds, answers) if config.unanswerable else squad1_scores(golds, answers)


def _number(value: object) -> float:
    assert isinstance(value, (int, float)), "a class, choice or score is a number"
    return float(value)


def _tuple(value: object) -> tuple[object, ...]:
    assert isinstance(value, tuple), "tags and answers come as tuples"
    return value


def _names(config: CustomConfig, tags: object) -> list[str]:
    return [config.labels[tag] for tag in _tuple(tags) if isinstance(tag, int)]
