"""Fine-tune one model on all seven example tasks and print a table of scores.

    python examples/custom_task/run.py MODEL_FOLDER OUT_FOLDER [--epochs X]

Each task is a TOML file beside this script; copy the one of your kind and name your own files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import litebert

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a pretrained model folder")
    parser.add_argument("out", type=Path, help="where the run folders go")
    parser.add_argument("--epochs", type=float, default=None, help="default: the recipe's")
    parser.add_argument("--lr", type=float, default=None, help="default: the recipe's")
    arguments = parser.parse_args()
    print(f"{'task':<22}{'metric':<12}{'score':>8}{'baseline':>10}")
    for task_file in sorted(HERE.glob("*.toml")):
        config = litebert.FinetuneConfig(
            str(task_file),
            model=arguments.model,
            out=arguments.out / task_file.stem,
            epochs=arguments.epochs,
            lr=arguments.lr,
        )
        result = litebert.finetune(config)
        score, baseline = result.scores[result.metric], result.baseline[result.metric]
        print(f"{task_file.stem:<22}{result.metric:<12}{score:>8.3f}{baseline:>10.3f}")


if __name__ == "__main__":
    main()
