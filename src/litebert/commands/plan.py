"""`litebert plan`: time, memory and traffic of a training before it is launched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from litebert.commands.flags import JSON, SETTINGS
from litebert.model.config import preset
from litebert.train.estimate import ClusterRun, TrainingEstimate, estimate_training


def plan(
    *,
    model: str = "albert-base",
    gpus: Annotated[Sequence[int], Parameter(consume_multiple=True, negative="")] = (8,),
    run: Annotated[ClusterRun | None, SETTINGS] = None,
    json_: Annotated[bool, JSON] = False,
) -> None:
    """Estimate a pretraining on a cluster: nothing runs, everything is arithmetic.

    Examples:
        litebert plan --model albert-base --gpus 8 16 32 64 --gpu v100
        litebert plan --model albert-xxlarge --gpus 8 64 512 --parallel fsdp --text-gb 160
        litebert plan --model bert-large --gpus 64 --network-gbit 25 --json

    Args:
        model: preset.
        gpus: numbers of GPUs to compare.
        json_: print a list of objects for programs.
    """
    run = run or ClusterRun()
    shape = preset(model)
    found = {number: estimate_training(shape, number, run) for number in gpus}
    if json_:
        print(json.dumps([{"gpus": number, **asdict(one)} for number, one in found.items()]))
    else:
        _print(model, run.gpu, found)


def _print(model: str, gpu: str, found: dict[int, TrainingEstimate]) -> None:
    first = next(iter(found.values()))
    lines = [
        f"{model}: {first.parameters:,} parameters, {first.flops_per_step / 1e12:,.0f} TFLOP per "
        f"step, {first.tokens / 1e9:,.0f} G tokens, checkpoint "
        f"{first.checkpoint_bytes / 1e9:.2f} GB"
    ]
    if first.epochs is not None:
        lines.append(
            f"text: {first.epochs:,.1f} epochs, {(first.shard_bytes or 0) / 1e9:,.0f} GB of "
            f"shards, {first.prepare_core_hours:,.0f} core hours to prepare"
        )
    table = Table(gpu, "hours", "GPU h", "s/step", "network", "MB sent", "memory", "at once")
    for column in table.columns:
        column.justify = "right"
    for number, one in found.items():
        at_once = f"{one.micro_batch_size} x {one.accumulation}"
        table.add_row(
            f"{number}",
            f"{one.hours:,.0f}" if one.hours >= 10 else f"{one.hours:.1f}",
            f"{one.gpu_hours:,.0f}",
            f"{one.step_s:.3g}",
            f"{one.communication_s / one.step_s:.1%}",
            f"{one.traffic_bytes / 1e6:,.0f}",
            f"{one.memory.total / 1e9:,.1f} GB",
            at_once + (" redo" if one.recompute else ""),
        )
    console = Console()
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
    console.print(table)
