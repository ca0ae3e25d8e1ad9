"""`litebert adapt`: your text and your vocabulary, from weights that exist."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

from litebert.commands.flags import JSON, SETTINGS, SWITCH
from litebert.report.write import write_report
from litebert.train.adapting.config import AdaptConfig


def adapt(
    *,
    config: Annotated[AdaptConfig, SETTINGS, SWITCH],
    dry_run: Annotated[bool, SWITCH] = False,
    json_: Annotated[bool, JSON] = False,
) -> None:
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
        json_: print the result as JSON.
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
