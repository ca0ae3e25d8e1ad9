"""Runs under torchrun: a small training whose last process kills itself once, at step 23."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from litebert.train.pretraining.config import Checkpoints
from litebert.train.pretraining.engine import pretrain
from litebert.train.run import Run
from small_run import small_config

KILLED_AT_STEP = 23


def main() -> None:
    shards, out, disturbed = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "disturbed"
    is_last = os.environ["RANK"] == str(int(os.environ["WORLD_SIZE"]) - 1)
    is_first_attempt = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if disturbed and is_last and is_first_attempt:
        log = Run.log

        def log_and_die(self: Run, step: int, values: dict) -> None:  # type: ignore[type-arg]
            log(self, step, values)
            if step == KILLED_AT_STEP:
                os.kill(os.getpid(), signal.SIGKILL)

        Run.log = log_and_die  # type: ignore[method-assign,assignment]
    every = Checkpoints(every_steps=10)
    config = small_config(shards, out, steps=40, checkpoint=every, resume="auto")
    pretrain(config, quiet=True)


if __name__ == "__main__":
    main()
