"""`litebert finetune`, a model on a benchmark or on your own task; `litebert sweep`, many."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from litebert.commands.flags import AT_ONCE, RECIPE, SETTINGS, AsJson
from litebert.common.config import to_dict, toml_lines
from litebert.common.errors import ConfigError
from litebert.common.files import write_text
from litebert.common.runs import BASELINES, is_main_process
from litebert.data.corpus.config import EngineName
from litebert.report.write import write_reports
from litebert.train.finetuning import sweep as sweeping
from litebert.train.finetuning.config import FinetuneConfig

if TYPE_CHECKING:
    from litebert.train.finetuning.results import FinetuneResult


def finetune(
    config: Annotated[FinetuneConfig, SETTINGS], *, recipe: Annotated[Path | None, RECIPE] = None, json_: AsJson = False
) -> None:
    """Fine-tune a model on GLUE, SQuAD, RACE or your own task, and score it on dev.

    Benchmarks: cola sst2 mrpc stsb qqp mnli qnli rte wnli squad1 squad2 race race-middle race-high. What you leave out
    comes from the paper's recipe (Table 14), or from a scaled one for models narrower than 768. Ctrl-C and SIGTERM save
    and leave; --resume auto continues, bit for bit. Many processes: torchrun --nproc-per-node 8 -m litebert finetune
    ...

    Examples:
        litebert finetune sst2 --model runs/base/model --data glue --out runs/sst2
        litebert finetune sst2 --data glue --out runs/sst2 --baseline words,random
        litebert finetune rte --model runs/mnli/model --data glue --out runs/rte --seeds 5
        litebert finetune squad1 --model runs/base/model --data squad --out runs/squad --steps 500
        litebert finetune tickets.csv --out runs/tickets
        litebert finetune mytask.toml --model runs/base/model --out runs/mine --epochs 3 --json
        litebert finetune cola --config cola --model M --data glue --out R

    Args:
        recipe: TOML file with settings, or the name of a recipe that comes with litebert; flags override it.
    """
    from litebert.train.finetuning.engine import finetune as run

    result = run(config)
    if result.interrupted_by:
        sys.exit(128 + result.interrupted_by)
    if is_main_process():
        report = write_reports(result.run)
        values = {**to_dict(result), "report": str(report)}
        print(json.dumps(values) if json_ else f"{describe(result)}\nreport: {report}")


def describe(result: FinetuneResult) -> str:
    """Scores beside the baseline, a line each, and where the model is."""
    of = "" if result.dev_examples == result.dev_available else f" of {result.dev_available:,}"
    best = f"best weights at step {result.best_step:,} of {result.steps:,}"
    lines = [f"{result.task}: {result.dev_examples:,}{of} dev examples, {best}"]
    width = max(map(len, result.scores))
    beside = {"baseline": result.baseline, **{BASELINES[key]: found for key, found in result.baselines.items()}}
    for name, value in result.scores.items():
        line = f"  {name:<{width}}  {value:>10.6g}"
        if name in result.spread:
            line += f"  (median of {len(result.by_seed)}, spread {result.spread[name]:.4g})"
        if not name.endswith(("total", "_thresh")):  # those are no scores
            found = [f"{key} {of[name]:.4g}" for key, of in beside.items() if name in of]
            line += f"  ({', '.join(found)})" if found else ""
        lines.append(line)
    for split, scores in result.other_scores.items():
        lines.append(f"  {split}: " + ", ".join(f"{k} {v:.6g}" for k, v in scores.items()))
    for depth, value in result.exit_scores.items():
        lines.append(f"  {result.metric} with --depth {depth}: {value:.6g}")
    return "\n".join([*lines, f"model: {result.model}"])


def sweep(
    config: Annotated[sweeping.SweepConfig, Parameter(name="*")],
    *,
    workers: Annotated[int, AT_ONCE] = 1,
    engine: EngineName = "local",
    json_: AsJson = False,
) -> None:
    """Fine-tune over tasks, seeds and a grid of settings; one table at the end.

    Runs that have finished are not made again: start the same command after an interruption.

    Examples:
        litebert sweep rte mrpc cola --model runs/base/model --data glue --out runs/sweep --seeds 5
        litebert sweep rte --model M --data glue --out runs/lr --grid lr=1e-4,3e-4 --grid epochs=3,6
        litebert sweep sst2 rte --model M --data glue --out R --grid start=weights,random --seeds 3
        litebert sweep cola rte --model M --data glue --out R --seeds 5 --workers 2

    Args:
        workers: runs side by side, of one thread each; 1: one after the other, with all threads.
        engine: where they go: processes of this machine, or a Ray cluster with the same files.
    """
    from litebert.dist.runtime import this_process
    from litebert.train.finetuning.engine import finetune as run

    def finetune_with_report(one: FinetuneConfig) -> FinetuneResult:
        result = run(one)
        if not result.interrupted_by and is_main_process():
            write_reports(result.run)
        return result

    # One group of processes for all runs.
    with this_process(parallel="ddp") as process, sweeping.owned_sweep(config, process):
        signum = 0
        if workers > 1 or engine == "ray":
            if process.world_size > 1:
                raise ConfigError("--workers and --engine ray are for one process, not torchrun")
            signum = _run_side_by_side(config, workers, engine)
        if not signum:  # finished runs are read, those that failed say why
            rows, signum = sweeping.sweep(config, finetune_with_report)
    if signum:
        print("stopped and saved; go on with the same command", file=sys.stderr)
        sys.exit(128 + signum)
    if is_main_process():
        table = json.dumps({"rows": [vars(row) for row in rows]}) + "\n" if json_ else sweeping.sweep_table(rows)
        print(table, end="")


def _run_side_by_side(config: sweeping.SweepConfig, workers: int, engine: EngineName) -> int:
    """Make every run by a `litebert finetune` of its own; the signal that stopped it, or 0."""
    from litebert.experiments.execute import Job, run_jobs

    folder = config.out / "jobs"
    folder.mkdir(exist_ok=True)
    jobs: dict[Path, Job] = {}
    for task, settings in product(config.tasks, sweeping.combinations(config.grid)):
        one = sweeping.run_config(config, task, settings)
        name = one.out.relative_to(config.out).as_posix()
        recipe = folder / f"{name.replace('/', '_')}.toml"
        defaults = to_dict(FinetuneConfig(task, out=one.out))
        values = {key: value for key, value in to_dict(one).items() if key != "task"}
        write_text(recipe, "\n".join(toml_lines(values, defaults | {"out": None})) + "\n")
        command = ("-m", "litebert", "finetune", task, "--config", str(recipe))
        start = jobs.get(Path(one.model).parent)
        jobs[one.out] = Job(name, command, recipe.with_suffix(".log"), start.name if start else None)
    return run_jobs(list(jobs.values()), workers, engine, stops_at_failure=config.strict)
