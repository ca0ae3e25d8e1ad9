"""`litebert params` counts the parameters of a shape, `litebert plan` what its training takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from litebert.commands.flags import SETTINGS, SEVERAL, AsJson
from litebert.common.errors import ConfigError
from litebert.model.config import ShapeOverrides, preset
from litebert.model.counts import ParameterReport, paper_tables
from litebert.model.sharing import draw, plan_of
from litebert.train.estimate import ClusterRun, estimate_training


def params(
    *presets: str, shape: Annotated[ShapeOverrides | None, SETTINGS] = None, plan: bool = False, json_: AsJson = False
) -> None:
    """Count parameters exactly, without allocating them.

    Without presets and flags: the parameter columns of the paper's Tables 1, 3 and 4. With flags
    alone: that shape (unset flags as in albert-base). With both: the presets with these changes.

    Examples:
        litebert params
        litebert params albert-base bert-base --vocab-size 8000
        litebert params --hidden-size 6144 --num-layers 3 --json
        litebert params albert-base --sharing groups --num-groups 3 --plan

    Args:
        presets: names such as albert-base, albert-xlarge-v1, bert-large, albert-tiny.
        plan: draw which layer uses which parameters instead.
    """
    changes = (shape or ShapeOverrides()).changes()
    configs = {name: preset(name, **changes) for name in presets}
    if changes and not presets:
        configs = {"custom": preset("albert-base", **changes)}
    if plan:
        if not configs:
            raise ConfigError("--plan needs a model: name a preset, or give flags.")
        if json_:
            print(json.dumps([{"name": name, **asdict(plan_of(config))} for name, config in configs.items()]))
            return
        for name, config in configs.items():
            print(f"{name}: {config.num_layers} layers, sharing {config.sharing}")
            print(draw(plan_of(config)))
        return
    tables: Mapping[str, Sequence[ParameterReport]] = paper_tables()
    if configs:
        tables = {"Parameters": [ParameterReport(name, one) for name, one in configs.items()]}
    if json_:
        print(json.dumps([row.record() for table in tables.values() for row in table], indent=1))
        return
    console = Console()
    for title, rows in tables.items():
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
        for column in ("model", "sharing", "L", "H", "E", "A", "encoder", "with heads", "paper"):
            table.add_column(column, justify="left" if column in ("model", "sharing") else "right", no_wrap=True)
        for row in rows:
            one, counts = row.config, row.counts
            sharing = f"{one.num_groups} groups" if one.sharing == "groups" else one.sharing
            sizes = (one.num_layers, one.hidden_size, one.embedding_size, one.heads)
            figures = (f"{counts.encoder:,}", f"{counts.total:,}", row.paper or "")
            table.add_row(row.name, sharing, *map(str, sizes), *figures)
        console.print(table)
    console.print("L layers, H hidden size, E embedding size, A attention heads")


def plan(
    *,
    model: str = "albert-base",
    gpus: Annotated[Sequence[int], SEVERAL] = (8,),
    run: Annotated[ClusterRun | None, SETTINGS] = None,
    json_: AsJson = False,
) -> None:
    """Estimate a pretraining on a cluster: nothing runs, everything is arithmetic.

    Examples:
        litebert plan --model albert-base --gpus 8 16 32 64 --gpu v100
        litebert plan --model albert-xxlarge --gpus 8 64 512 --parallel fsdp --text-gb 160
        litebert plan --model bert-large --gpus 64 --network-gbit 25 --json

    Args:
        model: preset.
        gpus: numbers of GPUs to compare.
    """
    run = run or ClusterRun()
    found = {number: estimate_training(preset(model), number, run) for number in gpus}
    if json_:
        print(json.dumps([{"gpus": number, **asdict(one)} for number, one in found.items()]))
        return
    first = next(iter(found.values()))
    work = f"{first.flops_per_step / 1e12:,.0f} TFLOP per step, {first.tokens / 1e9:,.0f} G tokens"
    print(f"{model}: {first.parameters:,} parameters, {work}, checkpoint {first.checkpoint_bytes / 1e9:.2f} GB")
    if first.epochs is not None:
        shards = f"{(first.shard_bytes or 0) / 1e9:,.0f} GB of shards"
        print(f"text: {first.epochs:,.1f} epochs, {shards}, {first.prepare_core_hours:,.0f} core hours to prepare")
    table = Table()
    for heading in (run.gpu, "hours", "GPU h", "s/step", "network", "MB sent", "memory", "at once"):
        table.add_column(heading, justify="right")
    for number, one in found.items():
        table.add_row(
            f"{number}",
            f"{one.hours:,.0f}" if one.hours >= 10 else f"{one.hours:.1f}",
            f"{one.gpu_hours:,.0f}",
            f"{one.step_s:.3g}",
            f"{one.communication_s / one.step_s:.1%}",
            f"{one.traffic_bytes / 1e6:,.0f}",
            f"{one.memory.total / 1e9:,.1f} GB",
            f"{one.micro_batch_size} x {one.accumulation}" + (" redo" if one.recompute else ""),
        )
    Console().print(table)
