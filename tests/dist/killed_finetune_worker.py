"""Runs under torchrun: a small fine-tuning whose last process kills itself once, at step 7."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from litebert.train.finetuning.engine import finetune
from small_finetuning import signal_at, small_finetuning


def main() -> None:
    model, out, disturbed = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "disturbed"
    is_last = os.environ["RANK"] == str(int(os.environ["WORLD_SIZE"]) - 1)
    is_first_attempt = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    config = small_finetuning(model, out, "classification", dropout=0.1, resume="auto")
    with pytest.MonkeyPatch.context() as patch:
        if disturbed and is_last and is_first_attempt:
            signal_at(patch, 7, signal.SIGKILL)
        finetune(config)


if __name__ == "__main__":
    main()
