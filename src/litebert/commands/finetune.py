"""`litebert finetune`: train a model on a benchmark or on your own task."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from litebert.train.finetune_config import FinetuneConfig

if TYPE_CHECKING:
    from litebert.train.finetune_results import FinetuneResult


def finetune(
    config: Annotated[FinetuneConfig, Parameter(name="*")],
    *,
    recipe: Annotated[Path | None, Parameter(name="--config")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Fine-tune a model on GLUE, SQuAD, RACE or your own task, and score it on dev.

    What you leave out comes from the paper's recipe (Table 14), or from a scaled one for models
    narrower than 768.

    Examples:
        litebert finetune sst2 --model runs/base/model --data glue --out runs/sst2
        litebert finetune rte --model runs/mnli/model --data glue --out runs/rte --seeds 5
        litebert finetune squad1 --model runs/base/model --data squad --out runs/squad --steps 500
        litebert finetune mytask.toml --model runs/base/model --out runs/mine --epochs 3 --json
        litebert finetune cola --config configs/finetune/cola.toml --model M --data glue --out R

    Args:
        recipe: TOML file with settings; flags override it.
        json: print the result as JSON.
    """
    from litebert.train.finetune import finetune as run

    result = run(config)
    if result.interrupted_by:
        print(
            f"stopped at step {result.steps:,} and saved; go on with --resume auto",
            file=sys.stderr,
        )
        sys.exit(128 + result.interrupted_by)
    if json:
        print(json_module.dumps(result.to_json()))
    else:
        _print(result)


def _print(result: FinetuneResult) -> None:
    print(f"{result.task}: {result.dev_examples:,} dev examples, best at step {result.best_step:,}")
    width = max(map(len, result.scores))
    for name, value in result.scores.items():
        line = f"  {name:<{width}}  {value:>10.6g}"
        if name in result.spread:
            line += f"  (median of {len(result.by_seed)}, spread {result.spread[name]:.4g})"
        if name in result.baseline:
            line += f"  (baseline {result.baseline[name]:.4g})"
        print(line)
    for split, scores in result.other_scores.items():
        print(f"  {split}: " + ", ".join(f"{k} {v:.6g}" for k, v in scores.items()))
    print(f"model: {result.model}")
