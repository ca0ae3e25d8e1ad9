"""Training beside one busy process: tokens per second free and busy, ours and the Trainer's.

Threads that wait for each other lose more than their share when another process takes a core.
Each figure is a process of its own, because how threads wait is decided before torch is loaded.
Rows alternate between free and busy; the share is that of the free speed of the same row.

    python bench/threads.py                       # a quarter of an hour
    python bench/threads.py --sizes tiny --seconds 8 --repeats 1
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from machine import on_this_machine, spread
from pretrain import REPOSITORY, corpus

from litebert.common.runs import RunFolder

VOCABULARY = 8_192
SPINS = {"GOMP_SPINCOUNT": "300000", "OMP_WAIT_POLICY": "ACTIVE"}
SLEEPS = {"OMP_WAIT_POLICY": "PASSIVE"}
WARMUP_SHARE = 0.3
"""of a run, left out: data, first allocations, the trial of fewer threads"""
SIZES = {"tiny": (128, 2, 64, 16), "small": (256, 6, 128, 32)}
"""hidden size, layers, length, batch size"""
ROWS: dict[str, tuple[dict[str, str], list[str]]] = {
    "litebert, two threads that spin (as before)": (SPINS, ["--threads", "2"]),
    "litebert, one thread": ({}, ["--threads", "1"]),
    "litebert, --threads auto": ({}, []),
    "Trainer": ({}, ["peer"]),
    "Trainer, threads that sleep": (SLEEPS, ["peer"]),
}


@contextlib.contextmanager
def one_busy_process(is_busy: bool) -> Iterator[None]:
    """A process that only computes, if asked for."""
    if not is_busy:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def run_litebert(size: str, shards: Path, seconds: float, more: Sequence[str]) -> float:
    """Tokens per second of a run of the command."""
    hidden, layers, length, batch = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "litebert", "pretrain", "--data", shards, "--out", out]
        command += ["--budget", f"{seconds / (1 - WARMUP_SHARE):.0f}s", "--log-every-steps", "1"]
        command += ["--model.preset", "albert-tiny", "--model.hidden-size", hidden]
        command += ["--model.num-layers", layers, "--batch-size", batch]
        command += ["--examples.length", length, "--examples.micro-batch-size", batch]
        command += ["--optimizer.name", "adamw", "--checkpoint.every-steps", 0]
        command += ["--evaluation.every-steps", 0, "--evaluation.final-examples", 32]
        command += ["--evaluation.examples", 32, *more]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        lines = [line for line in RunFolder.open(out).metrics() if "mlm_loss" in line]
    first, last = lines[int(len(lines) * WARMUP_SHARE)], lines[-1]

    def difference(key: str) -> float:
        return float(str(last[key])) - float(str(first[key]))

    return difference("tokens") / difference("elapsed_s")


def run_trainer(size: str, shards: Path, seconds: float) -> float:
    """Tokens per second of transformers' Trainer, in a process of its own."""
    command = [sys.executable, __file__, "--peer", size, str(shards), str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def peer(size: str, shards: Path, seconds: float) -> float:
    """What :func:`run_trainer` runs."""
    from pretrain import run_peer

    from litebert.data.batches.example import ExampleConfig, Vocabulary
    from litebert.data.batches.loader import Loader
    from litebert.data.corpus.shards import ShardSet
    from litebert.model.config import preset
    from litebert.text.tokenizer import Tokenizer

    hidden, layers, length, batch = SIZES[size]
    tokenizer = Tokenizer.load(ShardSet.open(shards, "train").tokenizer_folder)
    shape = preset("albert-tiny", vocab_size=tokenizer.vocab_size, hidden_size=hidden, num_layers=layers)
    examples = ExampleConfig(length=length, micro_batch_size=batch)
    sources = [(ShardSet.open(shards, "train"), 1.0)]
    loader = Loader(sources, examples, 0, Vocabulary.of(tokenizer))
    batches = [loader.batch(position) for position in range(100)]
    return run_peer(shape, batches, seconds, "sdpa", "float32")[0]


def measure(size: str, shards: Path, seconds: float, repeats: int) -> list[dict[str, object]]:
    """Every row, free and busy in turn."""
    found = []
    for name, (variables, more) in ROWS.items():
        rates: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(repeats):
            for is_busy in (False, True):
                with one_busy_process(is_busy), _environment(variables):
                    rates[is_busy].append(
                        run_trainer(size, shards, seconds)
                        if more == ["peer"]
                        else run_litebert(size, shards, seconds, more)
                    )
        spread(rates[False])
        free, busy = (statistics.median(rates[is_busy]) for is_busy in (False, True))
        row: dict[str, object] = {"size": size, "run": name, "free": round(free)}
        row |= {"busy": round(busy), "share_kept": round(busy / free, 2)}
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    for name in (*SPINS, "OMP_NUM_THREADS"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--seconds", type=float, default=15.0, help="of measuring, each run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "bench")
    parser.add_argument("--peer", nargs=3, metavar=("SIZE", "SHARDS", "SECONDS"))
    options = parser.parse_args()
    if options.peer:
        size, shards, seconds = options.peer
        print(peer(size, Path(shards), float(seconds)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    shards = corpus(options.folder, VOCABULARY, megabytes=20)
    with on_this_machine():
        for size in options.sizes:
            measure(size, shards, options.seconds, options.repeats)


if __name__ == "__main__":
    main()
