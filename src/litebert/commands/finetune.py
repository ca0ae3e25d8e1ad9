"""`litebert finetune`: train a model on a benchmark or on your own task."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from litebert.commands.flags import RECIPE, SETTINGS, SWITCH
from litebert.common.config import to_dict
from litebert.common.runs import BASELINES, is_main_process
from litebert.report.write import write_reports
from litebert.train.finetuning.config import FinetuneConfig

if TYPE_CHECKING:
    from litebert.train.finetuning.results import FinetuneResult

_NOT_SCORES = ("total", "_thresh")


def finetune(
    config: Annotated[FinetuneConfig, SETTINGS],
    *,
    recipe: Annotated[Path | None, RECIPE] = None,
    json: Annotated[bool, SWITCH] = False,
) -> None:
    """Fine-tune a model on GLUE, SQuAD, RACE or your own task, and score it on dev.

    Benchmarks: cola sst2 mrpc stsb qqp mnli qnli rte wnli squad1 squad2 race race-middle race-high.
    What you leave out comes from the paper's recipe (Table 14), or from a scaled one for models
    narrower than 768. Ctrl-C and SIGTERM save and leave; --resume auto continues, bit for bit.
    Many processes: torchrun --nproc-per-node 8 -m litebert finetune ...

    Examples:
        litebert finetune sst2 --model runs/base/model --data glue --out runs/sst2
        litebert finetune sst2 --data glue --out runs/sst2 --baseline words,random
        litebert finetune rte --model runs/mnli/model --data glue --out runs/rte --seeds 5
        litebert finetune squad1 --model runs/base/model --data squad --out runs/squad --steps 500
        litebert finetune tickets.csv --out runs/tickets
        litebert finetune mytask.toml --model runs/base/model --out runs/mine --epochs 3 --json
        litebert finetune cola --config cola --model M --data glue --out R

    Args:
        recipe: TOML file with settings, or the name of a recipe that comes with litebert; flags
            override it.
        json: print the result as JSON.
    """
    from litebert.train.finetuning.engine import finetune as run

    result = run(config)
    if result.interrupted_by:
        sys.exit(128 + result.interrupted_by)
    if not is_main_process():
        return
    report = write_reports(result.run)
    if json:
        print(json_module.dumps({**to_dict(result), "report": str(report)}))
    else:
        print(describe(result))
        print(f"report: {report}")


def describe(result: FinetuneResult) -> str:
    """Scores beside the baseline, a line each, and where the model is."""
    of = "" if result.dev_examples == result.dev_available else f" of {result.dev_available:,}"
    lines = [
        f"{result.task}: {result.dev_examples:,}{of} dev examples, "
        f"best weights at step {result.best_step:,} of {result.steps:,}"
    ]
    width = max(map(len, result.scores))
    beside = {"baseline": result.baseline}
    beside |= {BASELINES[key]: scores for key, scores in result.baselines.items()}
    for name, value in result.scores.items():
        line = f"  {name:<{width}}  {value:>10.6g}"
        if name in result.spread:
            line += f"  (median of {len(result.by_seed)}, spread {result.spread[name]:.4g})"
        if not name.endswith(_NOT_SCORES):
            found = [f"{key} {of[name]:.4g}" for key, of in beside.items() if name in of]
            line += f"  ({', '.join(found)})" if found else ""
        lines.append(line)
    for split, scores in result.other_scores.items():
        lines.append(f"  {split}: " + ", ".join(f"{k} {v:.6g}" for k, v in scores.items()))
    for depth, value in result.exit_scores.items():
        lines.append(f"  {result.metric} with --depth {depth}: {value:.6g}")
    return "\n".join([*lines, f"model: {result.model}"])
