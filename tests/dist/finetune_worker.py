"""Runs under torchrun: the same small fine-tunings as a single process, and what is refused."""

from __future__ import annotations

import gc
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from litebert.common.errors import ConfigError
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import finetune
from small_finetuning import EXAMPLES, STOPPED_STEP, poison, signal_at, small_finetuning


def main() -> None:
    model, out, kinds = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(",")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for kind in kinds:
        finetune(small_finetuning(model, out / f"ddp-{kind}", kind))
    finetune(small_finetuning(model, out / "ddp-paper", "span_extraction", head="paper"))
    base = small_finetuning(model, out, "classification")
    finetune(replace(base, out=out / "ddp-exits", train_exits=True))
    # One example a step: the second process has none.
    finetune(replace(base, out=out / "ddp-one", batch_size=1))
    finetune(replace(base, out=out / "ddp-accumulation", max_tokens=24))
    finetune(replace(base, out=out / "ddp-seeds", seeds=2, keep_checkpoints=2))
    # Only one process has a loss that is not finite, or gets a signal.
    with pytest.MonkeyPatch.context() as patch:
        if rank == 1:
            poison(patch)
        finetune(replace(base, out=out / "ddp-poisoned"))
    stopped = replace(base, out=out / "ddp-stopped")
    for name in ("ddp-stopped", "ddp-then-alone"):
        with pytest.MonkeyPatch.context() as patch:
            if rank == 1:
                signal_at(patch, STOPPED_STEP, signal.SIGTERM)
            result = finetune(replace(base, out=out / name))
            assert (result.steps, result.interrupted_by) == (STOPPED_STEP, signal.SIGTERM)
    finetune(replace(stopped, resume="auto"))
    finetune(replace(base, out=out / "begun-alone", resume="auto"))
    # A finished run is not run again, on any process.
    assert finetune(replace(stopped, resume="auto")).steps == base.steps
    refused = {
        "config": refusal(replace(base, out=out / "refused", seed=rank)),
        "seeds": refusal(replace(base, out=out / "refused", seeds=1 + rank)),
        "data": refusal(replace(base, out=out / "refused", data=(EXAMPLES, out / "data")[rank])),
        "model": refusal(replace(base, out=out / "refused", model=str((model, out)[rank]))),
    }
    if rank == 0:
        (out / "refused.json").write_text(json.dumps(refused))
    leave_group()


def leave_group() -> None:
    """Leave the process group; its threads end, because no training has kept a reference to it."""
    dist.destroy_process_group()
    gc.collect()
    threads = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    assert not [name for name in threads if "gloo" in name], threads


def refusal(config: FinetuneConfig) -> str:
    try:
        finetune(config)
    except ConfigError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
