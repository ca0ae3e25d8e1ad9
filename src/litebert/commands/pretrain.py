"""`litebert pretrain` trains on token shards, `litebert adapt` fits a model to your text."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from litebert.commands.flags import RECIPE, SETTINGS, SWITCHES, AsJson
from litebert.common.progress import format_duration
from litebert.common.runs import is_main_process
from litebert.report.write import write_report
from litebert.train.adapting.config import AdaptConfig
from litebert.train.pretraining.config import PretrainConfig

if TYPE_CHECKING:
    from litebert.train.dry_run import DryRun
    from litebert.train.pretraining.engine import PretrainResult


def pretrain(
    *,
    config: Annotated[PretrainConfig, SETTINGS],
    recipe: Annotated[Path | None, RECIPE] = None,
    dry_run: bool = False,
    json_: AsJson = False,
) -> None:
    """Pretrain a model on token shards: masked words and the order of sentences.

    The run folder holds metrics, checkpoints, TensorBoard events, report.html and, at the end, the model folder. Ctrl-C
    and SIGTERM save and leave; --resume auto continues, bit for bit. Many processes: torchrun --nproc-per-node 8 -m
    litebert pretrain ...

    Examples:
        litebert pretrain --config tiny --data shards --out run --steps 200
        litebert pretrain --config small --data shards --out run --budget 30m
        litebert pretrain --config small --data shards --out run --resume auto
        litebert pretrain --config base --data shards --out run --dry-run

    Args:
        recipe: TOML file with settings, or the name of a recipe that comes with litebert; flags override it.
        dry_run: print parameters, memory, FLOPs per step and the expected time, then stop.
    """
    if dry_run:
        from litebert.train.dry_run import dry_run as estimate

        found = estimate(config)
        if is_main_process():
            print(json.dumps(asdict(found)) if json_ else _describe_estimate(found))
        return
    from litebert.train.pretraining.engine import pretrain as run

    result = run(config)
    if is_main_process():
        report = write_report(result.run)
        values = {**asdict(result), "report": report}
        print(json.dumps(values, default=str) if json_ else _describe_result(result, report))
    if result.interrupted_by:
        sys.exit(128 + result.interrupted_by)


def _describe_result(result: PretrainResult, report: Path) -> str:
    from litebert.train.pretraining.scoring import describe_scores

    lines = [f"{result.step:,} steps, {result.tokens:,} tokens in {format_duration(result.elapsed_s)}"]
    if result.scores is not None:
        lines += describe_scores(result.scores, "dev ")
    if result.model is not None:
        lines.append(f"model       {result.model}")
    return "\n".join([*lines, f"report      {report}"])


def _describe_estimate(found: DryRun) -> str:
    memory, share = found.memory, "beside other work on this machine"
    if found.gemm_rate is not None and found.gemm_share is not None:
        share = f"{found.gemm_share:.0%} of this machine's GEMM rate of {found.gemm_rate / 1e9:,.0f} GFLOP/s"
    lines = [
        f"parameters    {found.parameters:,}",
        f"memory        {memory.total / 1e9:,.2f} GB (weights {memory.weights / 1e9:,.2f} GB, "
        f"gradients {memory.gradients / 1e9:,.2f} GB, optimizer {memory.optimizer / 1e9:,.2f} GB, "
        f"activations about {memory.activations / 1e9:,.2f} GB)",
        f"learning rate {found.learning_rate:.3g}",
        f"speed         {found.tokens_per_s:,.0f} tokens/s, {share}",
        "",
        "from   layers  length  batch  masks  tokens/step   GFLOP/step   s/step",
    ]
    lines += [
        f"{stage.from_share:4.0%}   {stage.layers:6}  {stage.length:6}  {stage.batch_size:5}  {stage.mask_rate:5.0%}  "
        f"{stage.tokens_per_step:11,}  {stage.flops_per_step / 1e9:11,.1f}  {stage.step_s:7.3g}"
        for stage in found.stages
    ]
    length = f"{found.expected_steps:,} steps, {found.expected_tokens:,} tokens"
    took = f"{format_duration(found.expected_s)} (ends by {found.bound})"
    return "\n".join([*lines, "", f"expected      {length}, {took}"])


def adapt(*, config: Annotated[AdaptConfig, SWITCHES], dry_run: bool = False, json_: AsJson = False) -> None:
    """Adapt a model to your text: a vocabulary of its own on weights that exist.

    Learns a vocabulary, starts its word table from the old one, trains the table alone and then
    everything. The folder holds each stage, the model and adapted.json with the loss per
    character and the pieces per word before and after. --resume auto continues at any stage.

    Examples:
        litebert adapt --input manuals/ --out runs/manuals --budget 30m
        litebert adapt --model albert/albert-base-v2 --input de.txt --language de --out runs/de
        litebert adapt --input manuals/ --out runs/more --add-pieces 1000 --budget 30m
        litebert adapt --input manuals/ --out runs/same --keep-vocabulary --budget 30m

    Args:
        dry_run: print what would be done, then stop.
    """
    from litebert.train.adapting.engine import adapt as run
    from litebert.train.adapting.engine import describe_plan

    if dry_run:
        print(describe_plan(config))
        return
    result = run(config)
    write_report(result.training.run)
    if json_:
        print(json.dumps(asdict(result), default=str))
    else:
        for name, found in result.losses.items():
            print(f"{name:<8} {found.describe()}")
        print(f"model    {result.model or 'interrupted: go on with --resume auto'}")
    if result.training.interrupted_by:
        sys.exit(128 + result.training.interrupted_by)
