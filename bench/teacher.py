"""A small student with and without a teacher: few labels, more text that only the teacher reads.

    python bench/teacher.py                              # estimated: 8 minutes of one core

The teacher is the bundled model fine-tuned on ``--teacher-examples`` rows of the task; the student
has two layers of width 64 and random weights. Both students see ``--labels`` labelled rows in the
same number of steps; the taught one also gets the teacher's logits on them and on ``--more`` rows
without labels. The interval is of the mean difference over seeds in pairs (Student's t, 95 %).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import mean, stdev

import torch
from machine import on_this_machine

from litebert import ModelConfig, bundled_model, save_model
from litebert.common.rng import rng
from litebert.interop.hf import build_model
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import find_task, input_columns
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import finetune

SHARED = Path(os.environ.get("LITEBERT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
FOLDERS = {"sst2": "SST-2", "qqp": "QQP"}
T_OF_TWO = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}


def student(folder: Path) -> Path:
    """A model folder with random weights and the bundled vocabulary."""
    shape = ModelConfig(vocab_size=8192, embedding_size=64, hidden_size=64, num_layers=2, num_heads=2)
    weights = build_model(shape, "pretraining", generator=torch.Generator().manual_seed(0))
    save_model(weights, folder, bundled_model())
    return folder


def write(path: Path, task: str, examples: list, labelled: bool) -> None:  # type: ignore[type-arg]
    found = find_task(task)
    columns = input_columns(found)
    names = [columns["text"], *([columns["text_pair"]] if "text_pair" in columns else [])]
    label = {"sst2": "label", "qqp": "is_duplicate"}[task]
    lines = ["\t".join([*map(str, names), *([label] if labelled else [])])]
    for example in examples:
        cells = [example.text, *([example.text_pair] if len(names) > 1 else [])]
        lines.append("\t".join([*cells, *([str(example.gold)] if labelled else [])]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["sst2", "qqp"], choices=FOLDERS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--more", type=int, default=10_000)
    parser.add_argument("--teacher-examples", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with on_this_machine(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = student(folder / "student")
        for task in options.tasks:
            data = SHARED / "data" / "glue" / FOLDERS[task]
            rows = find_task(task).read(data, "train", RowProblems())
            rows = [rows[i] for i in rng(0, "teacher bench").permutation(len(rows))]
            own = folder / task
            own.mkdir()
            write(own / "train.tsv", task, rows[: options.labels], True)
            more = rows[options.labels : options.labels + options.more]
            write(own / "more.tsv", task, more, False)
            (own / "dev.tsv").symlink_to(data / "dev.tsv")
            shared = {"threads": 1, "max_scored_examples": 4000, "max_length": 64}
            teacher = finetune(
                FinetuneConfig(
                    task, data=data, out=folder / f"{task}-teacher", epochs=1.0,
                    max_train_examples=options.teacher_examples, eval_every_steps=10**6,
                    **shared,  # type: ignore[arg-type]
                )
            )  # fmt: skip
            print(json.dumps({"task": task, "teacher": teacher.scores["accuracy"]}), flush=True)
            differences = []
            for seed in range(options.seeds):
                scores = {}
                for kind in ("alone", "taught"):
                    taught = kind == "taught"
                    config = FinetuneConfig(
                        task, model=str(start), data=own, out=folder / f"{task}-{kind}-{seed}",
                        steps=options.steps, lr=1e-3, seed=seed, eval_every_steps=10**6,
                        teacher=str(teacher.model) if taught else None,
                        teacher_text=own / "more.tsv" if taught else None,
                        teacher_weight=0.9, **shared,  # type: ignore[arg-type]
                    )  # fmt: skip
                    scores[kind] = finetune(config).scores["accuracy"]
                print(json.dumps({"task": task, "seed": seed, **scores}), flush=True)
                differences.append(scores["taught"] - scores["alone"])
            half = T_OF_TWO[len(differences)] * stdev(differences) / len(differences) ** 0.5
            found = {"task": task, "gain": mean(differences), "half_interval": half}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
