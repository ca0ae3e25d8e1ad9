"""Speed of fine-tuning: one epoch beside transformers' Trainer, same model, batch and recipe.

    python bench/finetune.py                       # estimated: 15 minutes on two cores
    python bench/finetune.py --examples 0 --rounds 1   # the whole of SST-2: estimated 45 minutes
    python bench/finetune.py --model DIR --tasks mrpc --seed 1

Both sides read the same model folder (without ``--model``: albert-small with random weights and the
official vocabulary) and the same token ids; both use AdamW with the same rate, warm-up, decay and
clipping, 32 examples a step, float32, all threads. Tokenising and dev scores are not counted.

The Trainer has its best settings: SDPA, fused AdamW, and PyTorch's fused tanh-GELU, which computes
what the folder's ``gelu_new`` says (``--peer-activation folder`` leaves it as it is). With dynamic
padding and with its length-grouped sampling it runs the epoch to its end. Padded to 128 and to 512
all its batches cost the same, so ``--padded-steps`` of them are timed. All take turns, ``--rounds``
times; the best round counts, and the range of the ratio over the rounds stands beside it.

litebert runs first and lets the process keep freed memory (`keep_freed_memory`), so the Trainer,
which shares the process, has that too.

Of a set larger than ``--examples`` so many are drawn and make up the epoch; the column "whole
epoch" is all of the set's examples divided by the rate. Needs the reference data.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import time
from dataclasses import asdict, dataclass, replace
from functools import reduce
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from machine import on_this_machine, ratio_text

from litebert.interop.hf import save_model
from litebert.model.config import preset
from litebert.model.heads import PretrainingModel
from litebert.tasks.base import Feature, Prediction
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import finetune
from litebert.train.finetuning.setup import TaskData, prepare_data

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
BUILD = REPOSITORY / "build" / "bench" / "finetune"
TARGETS = {"sst2": 2.0, "mrpc": 1.5}


@dataclass(frozen=True)
class Measured:
    """What one way of training needed."""

    name: str
    seconds: tuple[float, ...]
    """of an example, in each round"""
    num_examples: int
    score: float | None

    @property
    def examples_per_s(self) -> float:
        """Of the best round."""
        return 1 / min(self.seconds)

    def with_round(self, other: Measured) -> Measured:
        """Add a round of the same work; the same seed gives the same score."""
        assert self.score == other.score, f"{self.name}: {self.score} and {other.score}"
        return replace(self, seconds=self.seconds + other.seconds)


def small_model() -> Path:
    """A folder with albert-small: random weights, ALBERT's vocabulary."""
    folder = BUILD / "albert-small"
    if not folder.is_dir():
        tokenizer = BUILD / "tokenizer"
        tokenizer.mkdir(parents=True, exist_ok=True)
        shutil.copy(SHARED / "fixtures" / "official" / "spiece.model", tokenizer)
        generator = torch.Generator().manual_seed(0)
        config = preset("albert-small", vocab_size=30000)
        save_model(PretrainingModel(config, generator=generator), folder, tokenizer)
    return folder


def bench_config(task: str, model: Path, out: Path, arguments: argparse.Namespace) -> FinetuneConfig:
    return FinetuneConfig(
        task,
        model=str(model),
        data=SHARED / "data" / "glue",
        out=out,
        epochs=1.0,
        lr=arguments.lr,
        batch_size=32,
        max_length=128,
        eval_every_steps=10**9,
        max_train_examples=arguments.examples or None,
        seed=arguments.seed,
    )


def measure_ours(config: FinetuneConfig) -> Measured:
    shutil.rmtree(config.out, ignore_errors=True)
    result = finetune(config)
    seconds = result.seconds / result.train_examples
    return Measured("litebert", (seconds,), result.train_examples, result.scores[result.metric])


def rows_of(features: list[Feature], pad_to: int | None) -> list[dict[str, object]]:
    """The same ids and labels as the Trainer's collator wants them."""
    rows = []
    for feature in features:
        (row,) = feature.rows
        ids, segments = row.ids.tolist(), [int(at >= row.second) for at in range(len(row))]
        mask = [1] * len(ids)
        if pad_to is not None:
            rest = pad_to - len(ids)
            ids, segments, mask = ids + [0] * rest, segments + [0] * rest, mask + [0] * rest
        assert feature.target is not None
        rows.append(
            {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask,
             "labels": int(feature.target), "length": len(ids)}
        )  # fmt: skip
    return rows


def measure_trainer(
    name: str,
    config: FinetuneConfig,
    data: TaskData,
    *,
    activation: str | None,
    pad_to: int | None = None,
    grouped: bool = False,
    max_steps: int = -1,
) -> Measured:
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        logging,
        set_seed,
    )

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    set_seed(config.seed)
    labels = len(data.task.form.labels)
    changes = {} if activation is None else {"hidden_act": activation}
    model = AutoModelForSequenceClassification.from_pretrained(config.model, num_labels=labels, **changes)
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    batch_size = config.batch_size or 32
    steps = -(-len(data.train.features) // batch_size)
    settings = TrainingArguments(
        output_dir=str(BUILD / "trainer"),
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=64,
        num_train_epochs=1.0,
        max_steps=max_steps,
        learning_rate=config.lr or 1e-4,
        warmup_steps=round(0.1 * steps),
        weight_decay=0.01,
        optim="adamw_torch_fused",
        adam_epsilon=1e-6,
        train_sampling_strategy="group_by_length" if grouped else "random",
        length_column_name="length",
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=config.seed,
    )
    train = rows_of(list(data.train.features), pad_to)
    if not grouped:
        train = [{k: v for k, v in row.items() if k != "length"} for row in train]
    trainer = Trainer(model=model, args=settings, train_dataset=train, data_collator=DataCollatorWithPadding(tokenizer))
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    num_examples = min(len(train), max_steps * batch_size) if max_steps > 0 else len(train)
    score = None if max_steps > 0 else trainer_score(trainer, data)
    return Measured(name, (seconds / num_examples,), num_examples, score)


def trainer_score(trainer: object, data: TaskData) -> float:
    dev = data.evals[0]
    rows = [
        {k: v for k, v in row.items() if k not in ("length", "labels")} for row in rows_of(list(dev.features), None)
    ]
    logits = trainer.predict(rows).predictions  # type: ignore[attr-defined]
    values = np.argmax(logits, axis=-1)
    predictions = [Prediction(example.id, int(value)) for example, value in zip(dev.examples, values, strict=True)]
    return data.task.score(dev.examples, predictions)[data.task.main_metric]


def measure_task(task: str, model: Path, arguments: argparse.Namespace) -> tuple[list[Measured], TaskData]:
    config = bench_config(task, model, BUILD / "runs" / task, arguments)
    data = prepare_data(config)
    few = arguments.padded_steps
    activation = None if arguments.peer_activation == "folder" else arguments.peer_activation

    def trainer(name: str, pad_to: int | None = None, grouped: bool = False) -> Measured:
        steps = few if pad_to else -1
        found = measure_trainer(
            f"Trainer, {name}", config, data,
            activation=activation, pad_to=pad_to, grouped=grouped, max_steps=steps,
        )  # fmt: skip
        print(f"  {found.name}: {found.examples_per_s:.1f} examples/s", flush=True)
        return found

    rounds = [
        [
            measure_ours(config),
            trainer("dynamic padding"),
            trainer("group_by_length", grouped=True),
            trainer(f"padded to 128, {few} steps", pad_to=128),
            trainer(f"padded to 512, {few} steps", pad_to=512),
        ]
        for _ in range(arguments.rounds)
    ]
    return [reduce(Measured.with_round, ways) for ways in zip(*rounds, strict=True)], data


def report_task(task: str, rows: list[Measured], data: TaskData) -> None:
    """Print the table, the target and whether the scores agree."""
    ours, peer, whole = rows[0], rows[1], data.available["train"]
    print(f"\n{task}: {ours.num_examples:,} of {whole:,} examples, one epoch")
    print(f"{'':<32}{'examples/s':>11}{'whole epoch':>13}{'dev score':>11}  litebert is")
    for row in rows:
        score = "" if row.score is None else f"{row.score:.4f}"
        ratio = ratio_text(row.seconds, ours.seconds)
        epoch = f"{whole / row.examples_per_s:,.0f} s"
        print(f"{row.name:<32}{row.examples_per_s:>11.1f}{epoch:>13}{score:>11}  {ratio}")
    target = TARGETS.get(task)
    if target is not None:
        verdict = "met" if ours.examples_per_s >= target * peer.examples_per_s else "missed"
        print(f"target {target:g} x over dynamic padding: {verdict}")
    assert ours.score is not None
    assert peer.score is not None
    num_dev = len(data.evals[0].examples)
    noise = 1.96 * math.sqrt(2 * ours.score * (1 - ours.score) / num_dev)
    verdict = "within" if abs(ours.score - peer.score) <= noise else "beyond"
    print(
        f"dev scores differ by {ours.score - peer.score:+.4f}: {verdict} the noise of two runs "
        f"scored on {num_dev:,} examples (95 %: {noise:.4f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None, help="default: random albert-small")
    parser.add_argument("--tasks", nargs="+", default=["sst2", "mrpc"])
    parser.add_argument("--examples", type=int, default=6_000, help="most examples; 0: all")
    parser.add_argument("--rounds", type=int, default=2, help="how often all take their turn")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--padded-steps", type=int, default=5)
    parser.add_argument("--peer-activation", default="gelu_pytorch_tanh")
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    model = arguments.model or small_model()
    names = ("torch", "transformers", "accelerate")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"{model}; {versions}; {torch.get_num_threads()} threads", flush=True)
    report = {}
    for task in arguments.tasks:
        rows, data = measure_task(task, model, arguments)
        report_task(task, rows, data)
        report[task] = [asdict(row) for row in rows]
    (BUILD / "finetune.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    with on_this_machine():
        main()
