"""`litebert sweep`: fine-tune over tasks, seeds and a grid of settings; one table at the end."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from litebert.commands.flags import SWITCH
from litebert.common.runs import is_main_process
from litebert.report.write import write_reports
from litebert.train.finetuning.sweep import SweepConfig

if TYPE_CHECKING:
    from litebert.train.finetuning.config import FinetuneConfig
    from litebert.train.finetuning.results import FinetuneResult


def sweep(
    config: Annotated[SweepConfig, Parameter(name="*", negative="")],
    *,
    json: Annotated[bool, SWITCH] = False,
) -> None:
    """Fine-tune over tasks, seeds and a grid of settings; one table at the end.

    Runs that have finished are not made again: start the same command after an interruption.

    Examples:
        litebert sweep rte mrpc cola --model runs/base/model --data glue --out runs/sweep --seeds 5
        litebert sweep rte --model M --data glue --out runs/lr --grid lr=1e-4,3e-4 --grid epochs=3,6
        litebert sweep sst2 rte --model M --data glue --out R --grid start=weights,random --seeds 3

    Args:
        json: print the table as JSON.
    """
    from litebert.dist.runtime import this_process
    from litebert.train.finetuning.engine import finetune
    from litebert.train.finetuning.sweep import owned_sweep, sweep_table
    from litebert.train.finetuning.sweep import sweep as run

    def finetune_with_report(one: FinetuneConfig) -> FinetuneResult:
        result = finetune(one)
        if not result.interrupted_by and is_main_process():
            write_reports(result.run)
        return result

    # One group of processes for all runs.
    with this_process(parallel="ddp") as process, owned_sweep(config, process):
        rows, signum = run(config, finetune_with_report)
    if signum:
        print("stopped and saved; go on with the same command", file=sys.stderr)
        sys.exit(128 + signum)
    if not is_main_process():
        return
    if json:
        print(json_module.dumps({"rows": [vars(row) for row in rows]}))
    else:
        print(sweep_table(rows), end="")
