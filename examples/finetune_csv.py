"""Fine-tune a classifier on a CSV file with a column of texts and a column of labels.

    python examples/finetune_csv.py reviews.csv runs/reviews --text review --label stars

A fifth of the rows is set aside to score. --model defaults to the model that comes with litebert.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

from litebert import FinetuneConfig, Predictor, finetune


def write_task(rows: list[dict[str, str]], text: str, label: str, folder: Path) -> Path:
    """Write training rows, dev rows (every fifth) and the file that describes the task."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("dev", rows[::5]), ("train", [r for i, r in enumerate(rows) if i % 5])):
        lines = [json.dumps({"text": row[text], "label": row[label]}) for row in part]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    labels = sorted({row[label] for row in rows})
    task_file = folder / "task.toml"
    task_file.write_text(
        f'name = "mine"\nkind = "classification"\nlabels = {json.dumps(labels)}\n'
        '[files]\ntrain = "train.jsonl"\ndev = "dev.jsonl"\n'
        '[columns]\ntext = "text"\nlabel = "label"\n',
        encoding="utf-8",
    )
    return task_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="a CSV file with a header")
    parser.add_argument("out", type=Path)
    parser.add_argument("--text", default="text", help="column of texts")
    parser.add_argument("--label", default="label", help="column of labels")
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--epochs", type=float, default=4.0)
    options = parser.parse_args()
    with options.file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    task_file = write_task(rows, options.text, options.label, options.out / "task")
    run = FinetuneConfig(
        str(task_file), model=options.model, out=options.out / "run", epochs=options.epochs
    )
    result = finetune(run)
    score, baseline = result.scores["accuracy"], result.baseline["accuracy"]
    print(f"accuracy {score:.1%} of {result.dev_examples} rows; always the same {baseline:.1%}")
    predictor = Predictor.load(options.out / "run" / "model")
    print(json.dumps(predictor.predict([{"text": rows[0][options.text]}])[0]))


if __name__ == "__main__":
    main()
