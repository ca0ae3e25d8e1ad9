"""`litebert pretrain`: train a model on token shards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from litebert.train.config import PretrainConfig


def pretrain(
    *,
    config: Annotated[PretrainConfig, Parameter(name="*")],
    recipe: Annotated[Path | None, Parameter(name="--config")] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Pretrain a model on token shards: masked words and the order of sentences.

    Many processes: torchrun --nproc-per-node 8 -m litebert pretrain ...

    Examples:
        litebert pretrain --config configs/pretrain/tiny.toml --data shards --out run --steps 200
        litebert pretrain --config configs/pretrain/small.toml --data shards --out run --budget 30m
        litebert pretrain --config configs/pretrain/small.toml --data shards --out run --resume auto
        litebert pretrain --config configs/pretrain/base.toml --data shards --out run --dry-run

    Args:
        recipe: TOML file with settings; flags override it.
        dry_run: print parameters, memory, FLOPs per step and expected time, then stop.
        json: print the result as JSON.
    """
    from litebert.train.pretrain import pretrain as run

    result = run(config)
    if result.interrupted_by:
        sys.exit(128 + result.interrupted_by)
