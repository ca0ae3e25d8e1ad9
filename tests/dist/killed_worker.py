"""Runs under torchrun: a small training whose last process is killed or stopped at step 23."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from litebert.train.pretraining.config import Checkpoints
from litebert.train.pretraining.engine import pretrain
from litebert.train.run import Run
from small_run import small_config

KILLED_AT_STEP = 23
STOPPED_S = 60


def main() -> None:
    shards, out, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    is_last = os.environ["RANK"] == str(int(os.environ["WORLD_SIZE"]) - 1)
    is_first_attempt = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if how != "undisturbed" and is_last and is_first_attempt:
        log = Run.log

        def log_and_die(self: Run, step: int, values: dict) -> None:  # type: ignore[type-arg]
            log(self, step, values)
            if step == KILLED_AT_STEP and how == "stopped":
                subprocess.Popen(["sh", "-c", f"sleep {STOPPED_S}; kill -CONT {os.getpid()}"])
                os.kill(os.getpid(), signal.SIGSTOP)
            elif step == KILLED_AT_STEP:
                os.kill(os.getpid(), signal.SIGKILL)

        Run.log = log_and_die  # type: ignore[method-assign,assignment]
    every = Checkpoints(every_steps=10)
    config = small_config(shards, out, steps=40, checkpoint=every, resume="auto")
    pretrain(config, quiet=True)


if __name__ == "__main__":
    main()
