"""Speed of fine-tuning: one epoch beside transformers' Trainer, same model, batch and recipe.

    python bench/finetune.py [--model DIR] [--tasks sst2 mrpc] [--examples N] [--threads T]

Both sides read the same model folder (without ``--model``: albert-small with random weights and the
official vocabulary). The Trainer runs with dynamic padding, with its length-grouped sampling, and
padded to 128 and to 512; the padded ones only for ``--padded-steps`` steps, because they take long.
Tokenising is not counted on either side, nor is evaluation. Needs the reference data.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from litebert.interop.hf import save_model
from litebert.model.config import preset
from litebert.model.heads import PretrainingModel
from litebert.tasks.base import Feature, Prediction
from litebert.train.finetune import finetune, prepare_data
from litebert.train.finetune_config import FinetuneConfig
from litebert.train.finetune_data import TaskData

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
BUILD = REPOSITORY / "build" / "bench" / "finetune"
TARGETS = {"sst2": 2.0, "mrpc": 1.5}


@dataclass(frozen=True)
class Measured:
    """What one way of training needed."""

    name: str
    examples_per_s: float
    score: float | None


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


def bench_config(
    task: str, model: Path, out: Path, arguments: argparse.Namespace
) -> FinetuneConfig:
    return FinetuneConfig(
        task,
        model=str(model),
        data=SHARED / "data" / "glue",
        out=out,
        epochs=arguments.epochs,
        lr=arguments.lr,
        batch_size=32,
        max_length=128,
        eval_every_steps=10**9,
        max_train_examples=arguments.examples,
        seed=arguments.seed,
    )


def measure_ours(config: FinetuneConfig) -> Measured:
    shutil.rmtree(config.out, ignore_errors=True)
    result = finetune(config)
    rate = result.train_examples * (config.epochs or 1.0) / result.seconds
    return Measured("litebert", rate, result.scores[result.metric])


def rows_of(features: list[Feature], pad_to: int | None) -> list[dict[str, object]]:
    """The same ids and labels as the Trainer's collator wants them."""
    rows = []
    for feature in features:
        (row,) = feature.rows
        ids, segments = row.ids.tolist(), row.token_type_ids().tolist()
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

    logging.set_verbosity_error()
    set_seed(config.seed)
    labels = len(data.task.form.labels)
    model = AutoModelForSequenceClassification.from_pretrained(config.model, num_labels=labels)
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    batch_size = config.batch_size or 32
    steps = -(-len(data.train.features) // batch_size)
    settings = TrainingArguments(
        output_dir=str(BUILD / "trainer"),
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=64,
        num_train_epochs=config.epochs or 1.0,
        max_steps=max_steps,
        learning_rate=config.lr or 1e-4,
        warmup_steps=round(0.1 * steps),
        weight_decay=0.01,
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
    trainer = Trainer(
        model=model,
        args=settings,
        train_dataset=train,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    num_examples = min(len(train), max_steps * batch_size) if max_steps > 0 else len(train)
    score = None if max_steps > 0 else trainer_score(trainer, data)
    return Measured(name, num_examples / seconds, score)


def trainer_score(trainer: object, data: TaskData) -> float:
    dev = data.evals[0]
    rows = [
        {k: v for k, v in row.items() if k not in ("length", "labels")}
        for row in rows_of(list(dev.features), None)
    ]
    logits = trainer.predict(rows).predictions  # type: ignore[attr-defined]
    values = np.argmax(logits, axis=-1)
    predictions = [
        Prediction(example.id, int(value))
        for example, value in zip(dev.examples, values, strict=True)
    ]
    return data.task.score(dev.examples, predictions)[data.task.main_metric]


def measure_task(task: str, model: Path, arguments: argparse.Namespace) -> list[Measured]:
    config = bench_config(task, model, BUILD / "runs" / task, arguments)
    data = prepare_data(config)
    few = arguments.padded_steps
    # Ours first and last, so that a machine that slows down does not favour it.
    first = measure_ours(config)
    found = [
        measure_trainer("Trainer, dynamic padding", config, data),
        measure_trainer("Trainer, group_by_length", config, data, grouped=True),
        measure_trainer("Trainer, padded to 128", config, data, pad_to=128, max_steps=few),
        measure_trainer("Trainer, padded to 512", config, data, pad_to=512, max_steps=few),
    ]
    last = measure_ours(config)
    rate = 2 / (1 / first.examples_per_s + 1 / last.examples_per_s)
    return [Measured("litebert", rate, first.score), *found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--tasks", nargs="+", default=["sst2", "mrpc"])
    parser.add_argument("--examples", type=int, default=None, help="default: the whole set")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--padded-steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    model = arguments.model or small_model()
    names = ("torch", "transformers", "accelerate")
    print(f"{model}; " + ", ".join(f"{n} {version(n)}" for n in names), flush=True)
    report = {}
    for task in arguments.tasks:
        rows = measure_task(task, model, arguments)
        ours = rows[0].examples_per_s
        print(f"\n{task}\n{'':<28}{'examples/s':>12}{'litebert is':>14}{'dev score':>12}")
        for row in rows:
            score = "" if row.score is None else f"{row.score:.4f}"
            ratio = f"{ours / row.examples_per_s:.2f} x"
            print(f"{row.name:<28}{row.examples_per_s:>12.1f}{ratio:>14}{score:>12}", flush=True)
        report[task] = [vars(row) for row in rows]
        target = TARGETS.get(task)
        if target is not None:
            factor = ours / rows[1].examples_per_s
            verdict = "met" if factor >= target else "missed"
            print(f"target {target:g} x over dynamic padding: {verdict}")
    (BUILD / "finetune.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
