"""Metrics equal the official SQuAD scripts, scikit-learn and scipy."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from litebert.tasks import metrics
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import find_task

COMMAND = "pytest tests/parity/test_task_metrics.py"
Record = Callable[[str, float, str], None]


@pytest.mark.parametrize(
    ("task", "version", "data"),
    [
        ("squad1", "1.1", "fixtures/official/squad_metric/dev-v1.1-part.json"),
        ("squad2", "2.0", "data/squad/v2_split/dev.json"),
    ],
)
def test_squad_scores_equal_the_official_script(
    shared: Path, record_exactness: Record, task: str, version: str, data: str
) -> None:
    folder = shared / "fixtures" / "official" / "squad_metric"
    odds = folder / f"null-odds-v{version}.json"
    scores = find_task(task).score_file(
        folder / f"predictions-v{version}.json", shared / data, "dev", odds if odds.exists() else None, RowProblems()
    )
    expected = json.loads((folder / f"expected-v{version}.json").read_text())
    assert set(scores) == set(expected)
    difference = max(abs(scores[key] - expected[key]) for key in expected)
    record_exactness(f"official SQuAD {version} script, {len(expected)} figures", difference, COMMAND)
    assert difference <= 1e-6


@pytest.mark.parametrize("num_labels", [2, 3])
def test_classification_metrics_equal_scikit_learn(record_exactness: Record, num_labels: int) -> None:
    reference = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(num_labels)
    largest = 0.0
    for size in (1, 2, 7, 1000):
        for _ in range(20):
            gold, predicted = generator.integers(0, num_labels, (2, size))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scikit-learn on sets with one class only
                pairs = [
                    (metrics.matthews(gold, predicted), reference.matthews_corrcoef(gold, predicted)),
                    (metrics.accuracy(gold, predicted), reference.accuracy_score(gold, predicted)),
                    (
                        metrics.macro_f1(gold, predicted, num_labels),
                        reference.f1_score(gold, predicted, average="macro"),
                    ),
                ]
                if num_labels == 2:
                    pairs.append((metrics.f1(gold, predicted), reference.f1_score(gold, predicted)))
            largest = max(largest, *(abs(ours - theirs) for ours, theirs in pairs))
    record_exactness(f"scikit-learn classification metrics, {num_labels} classes", largest, COMMAND)
    assert largest <= 1e-12


def test_multi_label_metrics_equal_scikit_learn(record_exactness: Record) -> None:
    reference = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(5)
    gold, predicted = generator.integers(0, 2, (2, 200, 5))
    ours = metrics.multi_label_scores(gold, predicted)
    theirs = {
        "f1_micro": reference.f1_score(gold, predicted, average="micro"),
        "f1_macro": reference.f1_score(gold, predicted, average="macro"),
        "exact_match": reference.accuracy_score(gold, predicted),
    }
    largest = max(abs(ours[name] - theirs[name]) for name in theirs)
    record_exactness("scikit-learn multi-label metrics", largest, COMMAND)
    assert largest <= 1e-12


def test_correlations_equal_scipy(record_exactness: Record) -> None:
    reference = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(6)
    largest = 0.0
    for size in (3, 10, 1500):
        for levels in (3, 1_000_000):  # with and without many ties
            gold = generator.integers(0, levels, size) / 7
            predicted = gold + generator.normal(size=size)
            predicted[0], gold[:2] = predicted[1], (0.0, 1.0)
            pairs = [
                (metrics.pearson(gold, predicted), reference.pearsonr(gold, predicted)[0]),
                (metrics.spearman(gold, predicted), reference.spearmanr(gold, predicted)[0]),
            ]
            largest = max(largest, *(abs(ours - theirs) for ours, theirs in pairs))
    record_exactness("scipy pearsonr and spearmanr", largest, COMMAND)
    assert largest <= 1e-12
