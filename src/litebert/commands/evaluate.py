"""The evaluate command: score a model, or a file of predictions without any model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from litebert.commands.flags import JSON, SWITCH
from litebert.common.errors import ConfigError
from litebert.common.ownership import keep_files
from litebert.tasks.problems import BAD_ROWS_FILE, RowProblems


def evaluate(
    task: str,
    *,
    data: Path | None = None,
    model: Annotated[list[str] | None, Parameter(negative="")] = None,
    predictions: Path | None = None,
    null_odds: Path | None = None,
    split: str | None = None,
    choose: Annotated[bool, SWITCH] = False,
    out: Path | None = None,
    strict: Annotated[bool, SWITCH] = False,
    json_: Annotated[bool, JSON] = False,
) -> None:
    """Score a model on a task, or a file of predictions in the official script's format.

    Examples:
        litebert evaluate sst2 --model runs/sst2/model --data glue
        litebert evaluate rte --model runs/a/model --model runs/b/model --choose --data glue
        litebert evaluate mnli --model runs/mnli/model --data glue --split test_matched --out files
        litebert evaluate squad1 --predictions predictions.json --data dev-v1.1.json --json
        litebert evaluate squad2 --predictions answers.json --null-odds odds.json --data dev.json

    Args:
        task: a benchmark (cola sst2 mrpc stsb qqp mnli qnli rte wnli ax squad1 squad2 race
            race-middle race-high) or a TOML file that describes your own.
        data: a file with the gold labels, or the folder that holds the task's files.
        model: a fine-tuned model folder or an exported ONNX folder; several are averaged.
        predictions: a file of predictions to score; no model is loaded.
        null_odds: how likely each question has no answer (SQuAD 2.0), for the best thresholds.
        split: the split to score or predict, such as test; default: those with labels. A test
            split with a leaderboard is predicted for it, not scored.
        choose: of several models take those that make the average better on dev.
        out: folder for the predictions, in the official script's or leaderboard's format.
        strict: stop at the first bad row.
        json_: print JSON with the official script's keys.
    """
    if (model is None) == (predictions is None):
        raise ConfigError("evaluate needs either --model DIR or --predictions FILE, one of them")
    problems = RowProblems(strict)
    if predictions is not None:
        _refuse(out is not None, "--out", "--predictions")
        _refuse(choose, "--choose", "--predictions")
        from litebert.tasks.registry import data_folder, find_task

        found = find_task(task)
        where, name = data_folder(found, data), split or found.eval_splits[0]
        scores = found.score_file(predictions, where, name, null_odds, problems)
    else:
        _refuse(null_odds is not None, "--null-odds", "--model")
        from litebert.predict.evaluate import evaluate_models

        if out is not None:
            keep_files(out, [("--model", name) for name in model or []])
            folder = data.parent if data is not None and data.is_file() else data
            if folder is not None and out.resolve() == folder.resolve():
                raise ConfigError(f"--out {out} is where the data is; give predictions their own")
        evaluations = evaluate_models(
            task, model or [], data, split=split, out=out, choose=choose, problems=problems
        )
        scores = dict(evaluations[0].scores)  # of other splits with the split's name
        for evaluation in evaluations[1:]:
            scores |= {f"{evaluation.split}_{k}": v for k, v in evaluation.scores.items()}
        for evaluation in evaluations:
            if choose:
                print(f"ensemble: {', '.join(evaluation.models)}", file=sys.stderr)
            if not evaluation.scores:
                reason = "it is a test split, or has no labels"
                print(f"no score for {evaluation.split}: {reason}", file=sys.stderr)
            for file in evaluation.files:
                print(f"wrote {file}", file=sys.stderr)
    if out is not None:
        problems.write(out / BAD_ROWS_FILE)
    for line in problems.report():
        print(line, file=sys.stderr)
    if json_:
        print(json.dumps(scores))
        return
    width = max(map(len, scores), default=0)
    for name, value in scores.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
        print(f"{name:<{width}}  {shown}")


def _refuse(is_given: bool, flag: str, other: str) -> None:
    if is_given:
        raise ConfigError(f"{flag} does nothing together with {other}")
