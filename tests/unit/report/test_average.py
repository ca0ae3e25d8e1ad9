"""The paper's Avg column: F1 and EM of SQuAD averaged first, then five tasks."""

from __future__ import annotations

import pytest

from litebert.report.write import paper_average

BASE = [  # Table 2, ALBERT base
    {"task": "squad1", "scores": {"f1": 89.3, "exact_match": 82.3}},
    {"task": "squad2", "scores": {"f1": 1.0, "exact": 1.0, "best_f1": 80.0, "best_exact": 77.1}},
    {"task": "mnli", "scores": {"accuracy": 0.816}},
    {"task": "sst2", "scores": {"accuracy": 0.903}},
    {"task": "race", "scores": {"accuracy": 0.640}},
]


def test_the_average_of_table_2() -> None:
    assert paper_average(BASE) == pytest.approx(80.1, abs=0.05)


def test_there_is_none_unless_each_task_has_one_score() -> None:
    assert paper_average(BASE[:-1]) is None
    assert paper_average([*BASE, BASE[-1]]) is None
