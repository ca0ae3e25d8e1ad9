"""`litebert reproduce`: the paper's tables and figures, run, judged and written up."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from litebert.commands.flags import AT_ONCE, SEVERAL
from litebert.common.errors import ConfigError
from litebert.common.ownership import owned_folder
from litebert.common.progress import format_duration
from litebert.common.runs import RESULT_FILE
from litebert.data.corpus.config import EngineName
from litebert.data.corpus.shards import ShardSet
from litebert.experiments import plan
from litebert.experiments.config import Scale, experiment_names, load_experiment
from litebert.experiments.evidence import conclude, write_evidence
from litebert.experiments.execute import execute
from litebert.model.counts import count_parameters
from litebert.train.estimate import ClusterRun, estimate_training, measured_gemm_rate

_RATE = 1e11
"""Operations per second of matrix products, where other work on the machine hides it."""


def reproduce(
    what: tuple[str, ...],
    /,
    *,
    scale: Scale = "cpu",
    data: Annotated[tuple[Path, ...], SEVERAL] = (),
    dev: Annotated[tuple[Path, ...], SEVERAL] = (),
    task_data: Path | None = None,
    tokens: str | None = None,
    seeds: int | None = None,
    out: Path = Path("evidence"),
    evidence: Path | None = None,
    workers: Annotated[int, AT_ONCE] = 2,
    engine: EngineName = "local",
    gpus: int = 64,
    dry_run: bool = False,
) -> None:
    """Run tables and figures of the paper, and say which findings hold.

    Runs are kept by their configuration: what has come to its end is not run again, and the same command continues
    after an interruption. Each experiment gets a page, OUT/NAME/report.html, and all together OUT/evidence.md. Beside
    it lies evidence.jsonl with what was measured of each run: on another machine runs that are in it are not made
    again.

    Examples:
        litebert reproduce table4 --data shards/wiki shards/novels --dev shards/squad shards/race
        litebert reproduce all --data shards/wiki --out runs/evidence --task-data glue
        litebert reproduce table4 --data shards --tokens 20k --seeds 2 --out try
        litebert reproduce all --scale paper --dry-run

    Args:
        what: table1 to table14, figure1, figure2a, figure2b, or all.
        scale: cpu: small models, minutes a run; paper: the full-size runs, of which --dry-run writes the configurations
            and the planner's hours.
        data: folders of token shards; the first is the plain corpus, the others are more data.
        dev: shards of other text to measure on; default: the dev documents of the data.
        task_data: folder of GLUE, for the tables that fine-tune; without it they do not.
        tokens: length of a run, such as 20k or 1.5M; default: the recipe's.
        seeds: runs of each condition; default: the experiment's.
        out: folder for runs, tables and pages.
        evidence: page of all results, with the records of the runs beside it (.jsonl); default: evidence.md in --out.
        workers: runs side by side, of one thread each.
        engine: where runs go: processes of this machine, or a Ray cluster with the same files.
        gpus: for --scale paper: GPUs that the planner counts with.
        dry_run: list runs, minutes and disk, and stop.
    """
    names = experiment_names() if "all" in what else list(what)
    if not names:
        raise ConfigError("reproduce what? table1 to table14, figure1, figure2a, figure2b or all")
    for name in names:
        load_experiment(name)
    num_tokens = _number(tokens)
    if scale == "paper":
        if not dry_run:
            start = "start each with torchrun ... -m litebert pretrain --config FILE"
            raise ConfigError(f"--scale paper needs a cluster: write its configurations with --dry-run and {start}")
        _plan_paper(names, out, gpus)
        return
    if not data:
        raise ConfigError("reproduce needs --data SHARDS: `litebert prepare` makes them")
    evidence = evidence or out / "evidence.md"
    known = plan.read_records(evidence.with_suffix(".jsonl"))
    request = plan.Assignment(out, scale, data, dev, task_data, num_tokens, seeds, known)
    plans = {name: plan.plan_runs(load_experiment(name), request) for name in names}
    vocab_size = ShardSet.open(data[0], "train").vocab_size
    if dry_run:
        _list(plans, workers, vocab_size)
        return
    runs, inputs = plan.distinct(plans.values()), [("--data", folder) for folder in (*data, *dev)]
    with owned_folder(out, _is_evidence, inputs, early=("paper", "runs")):
        signum = execute(runs, workers, engine, vocab_size)
        records = known | {one.key: one for run in runs if (one := run.record())}
        plan.write_records(evidence.with_suffix(".jsonl"), records)
        if signum:
            print("stopped and saved; go on with the same command", file=sys.stderr)
            sys.exit(128 + signum)
        command = f"litebert {shlex.join(sys.argv[1:])}" if "reproduce" in sys.argv else ""
        for name in names:
            result = conclude(name, request, plans[name], command)
            print(f"{load_experiment(name).title}: {out / name / 'report.html'}")
            for finding in result.findings:
                print(f"  {finding.claim}: {finding.answer}; {finding.detail}")
        write_evidence(out, evidence, records)
        print(f"evidence: {evidence}")


def _is_evidence(out: Path) -> bool:
    """Whether an earlier call made the folder: the job of a run is in it, or the result of runs."""
    results = (out / name / RESULT_FILE for name in experiment_names())
    return any(out.glob(f"runs/*/{plan.JOB_FILE}")) or any(path.is_file() for path in results)


def _list(plans: Mapping[str, plan.Runs], workers: int, vocab_size: int) -> None:
    """Print the runs of each experiment and what they take; a run is counted where it is first."""
    rate, seen, total_s, disk = 0.5 * (measured_gemm_rate() or _RATE), set[str](), 0.0, 0.0
    for name, runs in plans.items():
        new = [run for run in plan.distinct([runs]) if run.key not in seen]
        seen |= {run.key for run in new}
        left = [run for run in new if run.record() is None]
        budgets = ((run, run.config.budget_s) for run in left)
        seconds = sum(run.flops(vocab_size) / rate if budget is None else budget for run, budget in budgets)
        size = sum(4 * 4 * count_parameters(run.config.model.resolve(vocab_size)).total for run in left)
        total_s, disk = total_s + seconds, disk + size
        takes = f"{format_duration(seconds):>9} of one thread, {size / 1e6:,.0f} MB"
        print(f"{name:<9} {len(runs):>3} runs, {len(left):>3} to do, {takes}")
    print(f"all: {format_duration(total_s / workers)} with {workers} at once, {disk / 1e6:,.0f} MB")


def _plan_paper(names: list[str], out: Path, gpus: int) -> None:
    """Print parameters and hours of every full-size run, and write its configuration."""
    for name in names:
        experiment = load_experiment(name)
        print(experiment.title)
        if not experiment.rows("paper"):
            print("  nothing to pretrain")
        for condition in experiment.rows("paper"):
            config, shape = plan.paper_config(experiment, condition.name)
            length, steps = config.examples.length, config.steps or 0
            parallel: Literal["ddp", "fsdp"] = "fsdp" if shape.hidden_size > 1024 else "ddp"
            run = ClusterRun(batch_size=config.batch_size, length=length, steps=steps, parallel=parallel)
            found = estimate_training(shape, gpus, run)
            config = replace(config, parallel=parallel, activation_checkpointing=found.recompute)
            path = plan.write_recipe(out / "paper", f"{name}-{condition.name}", config)
            takes = f"{found.hours:>7,.1f} hours on {gpus} {run.gpu}"
            print(f"  {condition.name:<24} {found.parameters:>13,} parameters, {takes}: {path}")


def _number(text: str | None) -> int | None:
    """``20k`` and ``1.5M`` as numbers."""
    if text is None:
        return None
    factor = {"k": 1e3, "m": 1e6, "g": 1e9}.get(text[-1:].lower(), 1)
    try:
        number = round(float(text if factor == 1 else text[:-1]) * factor)
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigError(f"--tokens {text} is not a number of tokens: write 20k, 1.5M or 20000")
    return number
