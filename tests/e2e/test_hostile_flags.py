"""Absurd numbers in flags end in one line, before memory or processes are taken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from litebert.cli import main

ABSURD = ("1000000000000000000000", "-1", "nan")
FLAGS = {
    "params albert-tiny": (
        "--num-layers", "--hidden-size", "--vocab-size", "--max-positions", "--inner-group-num",
        "--embedding-size", "--num-heads", "--intermediate-size", "--type-vocab-size",
    ),
    "pretrain --data none --out none --steps 1": (
        "--workers", "--threads", "--examples.length", "--examples.mask.max-ngram",
    ),
    "finetune cola --model none --out none": (
        "--batch-size", "--seeds", "--max-length", "--max-tokens", "--keep-checkpoints",
    ),
    "prepare --tokenizer none --out none --input none": (
        "--workers", "--shard-tokens", "--part-bytes", "--dev-fraction",
    ),
    "tokenizer train --input none --out none": ("--vocab-size", "--max-sentences"),
    "inspect none": ("--batches", "--show"),
    "predict embed": ("--max-tokens", "--threads"),
    "evaluate pretraining --model none --data none": ("--examples",),
    "serve": ("--port", "--threads"),
}  # fmt: skip


@pytest.mark.parametrize("command", FLAGS)
def test_absurd_flags_are_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in FLAGS[command]:
        for value in ABSURD:
            with pytest.raises(SystemExit) as end:
                main([*command.split(), f"{flag}={value}"])
            said = capsys.readouterr().err
            assert end.value.code == 2, (flag, value, said)
            (line,) = [x for x in said.splitlines() if x.startswith("litebert: error")]
            name = flag.rpartition(".")[2].strip("-")
            told = line.replace("_", "-")
            assert name in told or name.rstrip("s") in told, (flag, value, line)


@pytest.mark.slow
def test_memory_that_cannot_be_had_is_one_line() -> None:
    """A batch of the user's own size may be too large: torch says so without a type of its own."""
    script = (
        "import resource, sys\n"
        "from litebert import cli\n"
        "import torch\n"
        "cli.run = lambda arguments: torch.empty(1 << 44)\n"
        "cli.main([])\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.startswith("litebert: error: out of memory")
