"""Fine-tune a classifier on a CSV file with a column of texts and a column of labels.

    python examples/finetune_csv.py reviews.csv runs/reviews --text review --label stars

Separator, encoding and labels are found in the file; a fifth of its rows, chosen by a hash of their
text, is set aside to score. --model defaults to the model that comes with litebert.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from litebert import FinetuneConfig, Predictor, finetune


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="a CSV file with a header")
    parser.add_argument("out", type=Path)
    parser.add_argument("--text", default="text", help="column of texts")
    parser.add_argument("--label", default="label", help="column of labels")
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--epochs", type=float, default=4.0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    task_file = options.out / "task.toml"
    task_file.write_text(
        'name = "mine"\nkind = "classification"\n'
        f"[files]\ntrain = {json.dumps(str(options.file.resolve()))}\ndev_share = 0.2\n"
        f"[columns]\ntext = {json.dumps(options.text)}\nlabel = {json.dumps(options.label)}\n",
        encoding="utf-8",
    )
    run = FinetuneConfig(str(task_file), model=options.model, out=options.out / "run", epochs=options.epochs)
    result = finetune(run)
    score, baseline = result.scores["accuracy"], result.baseline["accuracy"]
    print(f"accuracy {score:.1%} of {result.dev_examples} rows; always the same {baseline:.1%}")
    predictor = Predictor.load(options.out / "run" / "model")
    print(json.dumps(predictor.predict([{"text": "One more row."}])[0]))


if __name__ == "__main__":
    main()
