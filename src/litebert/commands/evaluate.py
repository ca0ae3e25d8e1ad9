"""The evaluate command: score a model, or a file of predictions without any model."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def evaluate(
    task: str,
    *,
    data: Path,
    model: Path | None = None,
    predictions: Path | None = None,
    null_odds: Path | None = None,
    out: Path | None = None,
    strict: Annotated[bool, Parameter(negative="")] = False,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Score a model on a task, or a file of predictions in the official script's format.

    Examples:
        litebert evaluate squad1 --predictions predictions.json --data dev-v1.1.json --json
        litebert evaluate squad2 --predictions answers.json --null-odds odds.json --data dev-v2.0.json
        litebert evaluate rte --predictions RTE.tsv --data glue/RTE/dev.tsv

    Args:
        task: a benchmark (cola sst2 mrpc stsb qqp mnli qnli rte wnli ax squad1 squad2 race
            race-middle race-high) or a TOML file that describes your own.
        data: a file with the gold labels, or the folder that holds the task's files.
        model: a fine-tuned model folder.
        predictions: a file of predictions to score; no model is loaded.
        null_odds: how likely each question has no answer (SQuAD 2.0), for the best thresholds.
        out: folder for the predictions of the model.
        strict: stop at the first bad row.
        json_: print JSON with the official script's keys.
    """
    from litebert.common.errors import ConfigError
    from litebert.tasks.problems import RowProblems
    from litebert.tasks.registry import find_task

    if (model is None) == (predictions is None):
        raise ConfigError("evaluate needs either --model DIR or --predictions FILE, one of them")
    found = find_task(task)
    problems = RowProblems(strict)
    if predictions is None:
        raise ConfigError("not yet")
    scores = found.score_file(predictions, data, null_odds, problems)
    for line in problems.report():
        print(line, file=sys.stderr)
    _print_scores(scores, json_)


def _print_scores(scores: Mapping[str, float], as_json: bool) -> None:
    if as_json:
        print(json.dumps(scores))
        return
    width = max(map(len, scores))
    for name, value in scores.items():
        print(
            f"{name:<{width}}  {value:,}"
            if isinstance(value, int)
            else f"{name:<{width}}  {value:.6g}"
        )
