"""Runs under torchrun: the same small training in several modes, one after the other."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from litebert.common.errors import ConfigError
from litebert.dist.runtime import Parallel
from litebert.model.config import ModelSection
from litebert.optim.config import OptimizerConfig
from litebert.train.pretraining.config import Checkpoints, Evaluation
from litebert.train.pretraining.engine import pretrain
from small_run import BAG, GROWTH, LEVERS, SINGLE, poison, small_config, taught


def main() -> None:
    shards, out = Path(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    evaluation = Evaluation(every_steps=6, examples=40, final_examples=40)
    base = small_config(shards, out, evaluation=evaluation, checkpoint=Checkpoints(every_steps=6))
    lamb = OptimizerConfig(name="lamb", lr=5e-3)
    runs = {
        "ddp": replace(base, parallel="ddp"),
        "fsdp": replace(base, parallel="fsdp"),
        "ddp-lamb": replace(base, parallel="ddp", optimizer=lamb),
        "fsdp-lamb": replace(base, parallel="fsdp", optimizer=lamb),
        "ddp-bag": replace(base, parallel="ddp", objective=BAG),
        "fsdp-bag": replace(base, parallel="fsdp", objective=BAG, accumulation=4),
        "ddp-levers": replace(base, parallel="ddp", **LEVERS),
        "fsdp-levers": replace(base, parallel="fsdp", accumulation=4, **LEVERS),
        "ddp-texts": replace(base, parallel="ddp", **SINGLE),
        "fsdp-texts": replace(base, parallel="fsdp", **SINGLE),
        "ddp-growth": replace(base, parallel="ddp", **GROWTH),
        "fsdp-growth": replace(base, parallel="fsdp", **GROWTH),
        "ddp-taught": replace(base, parallel="ddp", **taught(out)),
        "fsdp-taught": replace(base, parallel="fsdp", accumulation=3, **taught(out)),
        # One micro-batch a step: the processes share its rows.
        "ddp-rows": replace(base, parallel="ddp", batch_size=2),
        # Batches of unequal size: the processes cut theirs into unequally many parts.
        "ddp-accumulation": replace(base, parallel="ddp", accumulation=4),
        "fsdp-accumulation": replace(base, parallel="fsdp", accumulation=4),
    }
    for name, config in runs.items():
        pretrain(replace(config, out=out / name), quiet=True)
    # Only one process has a loss that is not finite, or gets a signal.
    poisons: dict[Parallel, Callable[..., bool]] = {"ddp": poison_ddp, "fsdp": poison_fsdp}
    for parallel, is_bad in poisons.items():
        with pytest.MonkeyPatch.context() as patch:
            if dist.get_rank() == 1:
                poison(patch, is_bad)
            config = replace(base, parallel=parallel, out=out / f"{parallel}-poisoned")
            pretrain(config, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        if dist.get_rank() == 1:
            poison(patch, signal_ddp)
        stopped = replace(base, parallel="ddp", out=out / "ddp-stopped")
        assert pretrain(stopped, quiet=True).step == 3
    pretrain(replace(stopped, resume="auto"), quiet=True)
    # Six steps of a run that a single process began.
    pretrain(replace(base, parallel="fsdp", out=out / "begun-alone", resume="auto"), quiet=True)
    refused = {
        "config": refusal(replace(base, out=out / "refused", seed=dist.get_rank())),
        "model": refusal(replace(base, out=out / "refused", model=wider_model(base.model))),
        "parallel": refusal(replace(base, out=out / "refused", parallel=other_parallel())),
        "none": refusal(replace(base, out=out / "refused", parallel="none")),
        "data": refusal(replace(base, out=out / "refused", data=other_shards(shards, out))),
    }
    if dist.get_rank() == 0:
        (out / "refused.json").write_text(json.dumps(refused))
    dist.destroy_process_group()


def poison_fsdp(call: int) -> bool:
    """Whether a call is in step 3, with two micro-batches a step and process."""
    return call in (5, 6)


def poison_ddp(call: int) -> bool:
    """The same; DDP rehearses once before the first step."""
    return poison_fsdp(call - 1)


def signal_ddp(call: int) -> bool:
    """Send SIGTERM to this process at the beginning of step 3; its losses stay as they are."""
    if call == 6:
        os.kill(os.getpid(), signal.SIGTERM)
    return False


def refusal(config) -> str:  # type: ignore[no-untyped-def]
    try:
        pretrain(config, quiet=True)
    except ConfigError as error:
        return str(error)
    return ""


def wider_model(model: ModelSection) -> ModelSection:
    """A model twice as wide on the second process."""
    return replace(model, hidden_size=64 * (dist.get_rank() + 1))


def other_parallel() -> Parallel:
    """DDP on the first process, FSDP on the second."""
    return "ddp" if dist.get_rank() == 0 else "fsdp"


def other_shards(shards: Path, out: Path) -> Path:
    """Shards that differ on the second process."""
    return shards if int(os.environ["RANK"]) == 0 else out / "other-shards"


if __name__ == "__main__":
    main()
