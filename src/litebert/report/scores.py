"""One table for many fine-tuning runs: score, baseline, what it was trained on, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import read_json
from litebert.common.runs import RESULT_FILE as RESULT_FILE
from litebert.report.charts import Record, number

_HEADER = (
    "task", "metric", "dev score", "baseline", "trained on", "epochs", "steps", "scored", "minutes",
)  # fmt: skip


def score_table(runs: Sequence[Path]) -> str:
    """Return a Markdown table with a line for each finished fine-tuning run.

    Example:
        >>> print(score_table([Path("runs/sst2")]).splitlines()[2])
        | sst2 | accuracy | 0.82 | 0.5092 | all 67,349 | 2 | 4,210 | all 872 | 10.4 |
    """
    lines = [f"| {' | '.join(_HEADER)} |", f"|{' --- |' * len(_HEADER)}"]
    lines += [f"| {' | '.join(_cells(run))} |" for run in runs]
    return "\n".join(lines) + "\n"


def _cells(run: Path) -> list[str]:
    path = run / RESULT_FILE
    if not path.is_file():
        raise DataError(f"{run} has no {RESULT_FILE}: it is no finished fine-tuning run")
    result = read_json(path)
    metric = str(result.get("metric"))
    seeds = result.get("by_seed")
    score = f"{_score(result, 'scores', metric):.4g}"
    if isinstance(seeds, Sequence) and seeds:
        spread = _score(result, "spread", metric)
        score += f" (median of {len(seeds)}, spread {spread:.3g})"
    return [
        str(result.get("task")),
        metric,
        score,
        f"{_score(result, 'baseline', metric):.4g}",
        _share(result, "train_examples", "train_available"),
        f"{number(result, 'epochs'):.3g}",
        f"{number(result, 'steps'):,.0f}",
        _share(result, "dev_examples", "dev_available"),
        f"{number(result, 'seconds') / 60:.1f}",
    ]


def _score(result: Record, key: str, metric: str) -> float:
    scores = result.get(key)
    return number(scores, metric) if isinstance(scores, Mapping) else 0.0


def _share(result: Record, key: str, whole_key: str) -> str:
    part, whole = number(result, key), number(result, whole_key)
    return f"{part:,.0f} of {whole:,.0f}" if part < whole else f"all {part:,.0f}"
