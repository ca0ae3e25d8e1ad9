"""Several seeds of one fine-tuning: medians, spread, and the best of the models."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from litebert.common.config import to_dict
from litebert.common.files import atomic_folder
from litebert.common.runs import RunFolder
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.records import check_same_settings
from litebert.train.finetuning.results import FinetuneResult, write_result


def seed_configs(config: FinetuneConfig) -> list[FinetuneConfig]:
    """Return one configuration per seed, each with a run folder of its own."""
    return [
        replace(config, seed=seed, seeds=1, out=config.out / f"seed-{seed}")
        for seed in range(config.seed, config.seed + config.seeds)
    ]


def open_seeds_run(config: FinetuneConfig) -> RunFolder:
    """Create or open the folder that holds the runs of all seeds."""
    if config.resume == "auto" and (config.out / "manifest.json").is_file():
        check_same_settings(config)
        return RunFolder.open(config.out)
    seeds = {f"run-{number}": config.seed + number for number in range(config.seeds)}
    return RunFolder.create(config.out, to_dict(config), seeds)


def summarize_seeds(run: Path, results: Sequence[FinetuneResult]) -> FinetuneResult:
    """Write the medians as the result, with the spread and the model of the best seed.

    Example:
        >>> summarize_seeds(Path("runs/rte"), results).spread["accuracy"]
        0.0325
    """
    metric = results[0].metric
    best = max(results, key=lambda result: result.scores[metric])
    assert best.model is not None, "finished runs have a model"
    with atomic_folder(run / "model", replace=True) as temporary:
        shutil.copytree(best.model, temporary, dirs_exist_ok=True)
    columns = {
        name: [float(result.scores[name]) for result in results] for name in results[0].scores
    }
    others = {
        split: _medians([result.other_scores[split] for result in results])
        for split in results[0].other_scores
    }
    summary = replace(
        results[0],
        run=run,
        model=run / "model",
        scores={name: statistics.median(values) for name, values in columns.items()},
        other_scores=others,
        exit_scores=_medians([result.exit_scores for result in results]),
        spread={name: max(values) - min(values) for name, values in columns.items()},
        by_seed=tuple({"seed": float(r.seed), **r.scores} for r in results),
        best_step=best.best_step,
        tokens=sum(result.tokens for result in results),
        seconds=round(sum(result.seconds for result in results), 3),
    )
    write_result(summary)
    return summary


def _medians(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median([float(s[name]) for s in scores]) for name in scores[0]}
