"""`litebert plan`: time, memory and traffic of a training before it is launched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from litebert.model.config import preset

if TYPE_CHECKING:
    from litebert.train.plan import Plan


def plan(
    *,
    model: str = "albert-base",
    gpus: Annotated[Sequence[int], Parameter(consume_multiple=True, negative="")] = (8,),
    gpu: str = "a100",
    gpus_per_machine: int = 8,
    network_gbit: float | None = None,
    efficiency: float | None = None,
    batch_size: int = 4096,
    length: int = 512,
    steps: int = 125_000,
    parallel: Literal["ddp", "fsdp"] = "ddp",
    text_gb: float | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Estimate a pretraining on a cluster: nothing runs, everything is arithmetic.

    Examples:
        litebert plan --model albert-base --gpus 8 16 32 64 --gpu v100
        litebert plan --model albert-xxlarge --gpus 8 64 512 --parallel fsdp --text-gb 160
        litebert plan --model bert-large --gpus 64 --network-gbit 25 --json

    Args:
        model: preset.
        gpus: numbers of GPUs to compare.
        gpu: kind of GPU: v100, a100, h100, l4, rtx4090.
        gpus_per_machine: GPUs that are connected without the network.
        network_gbit: network of one machine in Gbit/s; unless set, usual for the GPU.
        efficiency: share of the GPU's peak that training reaches; unless set, a typical one.
        batch_size: examples per step.
        length: tokens per example.
        steps: steps of the run.
        parallel: ddp, or fsdp (weights, gradients and optimizer state sharded).
        text_gb: size of the raw text in GB, for epochs, disk and preparation time.
        json_: print a list of objects for programs.
    """
    from litebert.train.plan import Cluster, Workload, plan_training

    shape = preset(model)
    workload = Workload(batch_size, length, steps, text_gb=text_gb)
    plans = {
        number: plan_training(
            shape,
            Cluster(number, gpu, gpus_per_machine, network_gbit, efficiency),
            workload,
            parallel,
        )
        for number in gpus
    }
    if json_:
        print(json.dumps([{"gpus": number, **asdict(found)} for number, found in plans.items()]))
    else:
        _print(model, gpu, workload.tokens, plans)


def _print(model: str, gpu: str, tokens: int, plans: dict[int, Plan]) -> None:
    from rich.console import Console
    from rich.table import Table

    first = next(iter(plans.values()))
    console = Console()
    console.print(
        f"{model}: {first.parameters:,} parameters, {first.flops_per_step / 1e12:,.0f} TFLOP per "
        f"step, {tokens / 1e9:,.0f} G tokens, checkpoint {first.checkpoint_bytes / 1e9:.2f} GB",
        highlight=False,
        soft_wrap=True,
    )
    if first.epochs is not None:
        console.print(
            f"text: {first.epochs:,.1f} epochs, {(first.shard_bytes or 0) / 1e9:,.0f} GB of "
            f"shards, {first.prepare_core_hours:,.0f} core hours to prepare",
            highlight=False,
            soft_wrap=True,
        )
    table = Table(gpu, "hours", "GPU h", "s/step", "network", "MB sent", "memory", "at once")
    for column in table.columns:
        column.justify = "right"
    for number, found in plans.items():
        at_once = f"{found.micro_batch_size} x {found.accumulation}"
        table.add_row(
            f"{number}",
            f"{found.hours:,.0f}" if found.hours >= 10 else f"{found.hours:.1f}",
            f"{found.gpu_hours:,.0f}",
            f"{found.step_s:.3g}",
            f"{found.communication_s / found.step_s:.1%}",
            f"{found.traffic_bytes / 1e6:,.0f}",
            f"{found.memory.total / 1e9:,.1f} GB",
            at_once + (" redo" if found.recompute else ""),
        )
    console.print(table)
