"""`litebert sweep`: fine-tune over tasks, seeds and a grid of settings; one table at the end."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated

from cyclopts import Parameter

from litebert.train.finetune_sweep import SweepConfig


def sweep(
    config: Annotated[SweepConfig, Parameter(name="*")],
    *,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Fine-tune over tasks, seeds and a grid of settings; one table at the end.

    Runs that have finished are not made again: start the same command after an interruption.

    Examples:
        litebert sweep rte mrpc cola --model runs/base/model --data glue --out runs/sweep --seeds 5
        litebert sweep rte --model M --data glue --out runs/lr --grid lr=1e-4,3e-4 --grid epochs=3,6
        litebert sweep sst2 --model M --data glue --out runs/start --grid start=weights,random

    Args:
        json: print the table as JSON.
    """
    from litebert.train.finetune import finetune
    from litebert.train.finetune_sweep import sweep as run
    from litebert.train.finetune_sweep import table

    rows, signum = run(config, finetune)
    if signum:
        print("stopped and saved; go on with the same command", file=sys.stderr)
        sys.exit(128 + signum)
    if json:
        print(json_module.dumps({"rows": [vars(row) for row in rows]}))
    else:
        print(table(rows), end="")
