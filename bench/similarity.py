"""Vectors of texts on STS-B: litebert beside sentence-transformers, same weights, loss and budget.

    python bench/similarity.py --epochs 1 --seeds 3      # estimated: 12 minutes of one core

Both begin with the bundled model, take the mean of the tokens, the squared error of the cosine
against score / 5, 64 pairs a step, AdamW with the same rate, warm-up, linear decay and clipping, in
float32 on one thread. sentence-transformers' model and `CosineSimilarityLoss` run in a plain loop
(its Trainer does the same steps and more besides). Batches are drawn by the seed, each side's own
way. Times are of the processor, of training alone: on a shared machine a clock says nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from machine import on_this_machine

from litebert import bundled_model
from litebert.common.rows import read_rows
from litebert.predict.evaluate import evaluate_models
from litebert.tasks.metrics import spearman
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import FineTuning, finetune
from litebert.train.loop import Loop

SHARED = Path(os.environ.get("LITEBERT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
TASK = """name = "stsb-vectors"
kind = "similarity"
score_range = [0, 5]
[files]
train = "{data}/train.tsv"
dev = "{data}/dev.tsv"
[columns]
text = "sentence1"
text_pair = "sentence2"
label = "score"
"""
BATCH_SIZE, LR, WARMUP = 64, 3e-4, 0.1


def ours(task: Path, out: Path, epochs: float, seed: int) -> tuple[float, float]:
    """Spearman on dev at the end, and seconds of training."""
    spent = {"train": 0.0, "evaluate": 0.0}

    def timed(owner: type, name: str, key: str) -> None:
        plain = getattr(owner, name)

        def wrapped(*arguments, **named):  # type: ignore[no-untyped-def]
            began = time.process_time()
            answer = plain(*arguments, **named)
            spent[key] += time.process_time() - began
            return answer

        setattr(owner, name, wrapped)

    kept = Loop.train, FineTuning.evaluate
    timed(Loop, "train", "train")
    timed(FineTuning, "evaluate", "evaluate")
    config = FinetuneConfig(
        str(task), out=out, epochs=epochs, lr=LR, batch_size=BATCH_SIZE, seed=seed, threads=1,
        eval_every_steps=1_000_000,
    )  # fmt: skip
    result = finetune(config)
    Loop.train, FineTuning.evaluate = kept  # type: ignore[method-assign]
    return result.scores["spearman"], spent["train"] - spent["evaluate"]


def theirs(data: Path, epochs: float, seed: int) -> tuple[float, float]:
    """The same of sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses, modules

    torch.manual_seed(seed)
    transformer = modules.Transformer(str(bundled_model()), max_seq_length=128)
    pooling = modules.Pooling(transformer.get_embedding_dimension(), "mean")
    model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
    loss_of = losses.CosineSimilarityLoss(model)
    rows = [
        (str(row["sentence1"]), str(row["sentence2"]), float(str(row["score"])) / 5)
        for _, row in read_rows(data / "train.tsv")
    ]
    steps = round(epochs * -(-len(rows) // BATCH_SIZE))
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, eps=1e-6, fused=True)
    warmup = round(WARMUP * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: s / warmup if s < warmup else 1 - s / steps)
    drawn = random.Random(seed)
    batches: list[list[Any]] = []
    while len(batches) < steps:
        order = drawn.sample(rows, len(rows))
        batches += [order[i : i + BATCH_SIZE] for i in range(0, len(order), BATCH_SIZE)]
    began = time.process_time()
    model.train()
    for batch in batches[:steps]:
        features = [model.preprocess([row[side] for row in batch]) for side in (0, 1)]
        loss = loss_of(features, torch.tensor([row[2] for row in batch]))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    seconds = time.process_time() - began
    dev = [row for _, row in read_rows(data / "dev.tsv")]
    first, second = (
        model.eval().encode([str(row[name]) for row in dev], normalize_embeddings=True)
        for name in ("sentence1", "sentence2")
    )
    golds = [float(str(row["score"])) for row in dev]
    return spearman(golds, (first * second).sum(1).tolist()), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "glue" / "STS-B")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"sentence-transformers {version('sentence-transformers')}, torch {torch.__version__}")
    with on_this_machine(), tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.toml"
        task.write_text(TASK.format(data=options.data))
        (before,) = evaluate_models(str(task), [str(bundled_model())], None)
        print(json.dumps({"before": before.scores}), flush=True)
        for seed in range(options.seeds):
            for name in ("litebert", "sentence-transformers"):
                if name == "litebert":
                    out = Path(folder) / f"run-{seed}"
                    score, seconds = ours(task, out, options.epochs, seed)
                else:
                    score, seconds = theirs(options.data, options.epochs, seed)
                found = {"name": name, "seed": seed, "spearman": score, "cpu_s": seconds}
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
