"""Ship a taught model of sentence vectors: half precision, pooling files, a card of its scores."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from bundle import MAX_BYTES, write_half_precision

from litebert.bundled import SENTENCES, bundled_folder
from litebert.common.config import from_dict
from litebert.common.errors import CheckpointError
from litebert.common.files import atomic_folder, read_json
from litebert.common.runs import RESULT_FILE
from litebert.interop.folder import WEIGHTS_FILE, load_config
from litebert.model.counts import count_parameters
from litebert.train.finetuning.results import FinetuneResult

_CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
license: apache-2.0
language: en
tags:
- albert
- litebert
---

# The sentence vectors that come with litebert

A small ALBERT that gives English sentences vectors of length 1, near for sentences that mean the
same: for search, clustering and deduplication where a few megabytes are all there is. It learned
from a larger model, {teacher}; no label was used.

| | |
| --- | --- |
| parameters | {parameters:,}; stored in float16, computed in float32 |
| shape | hidden {hidden}, {layers} layers that share one block, mean of the tokens |
| training | {examples:,} pairs of sentences, {epochs:g} passes, {minutes:.0f} minutes of one core |

Sentences: {data}

| STS-B dev, {dev:,} pairs | Spearman | Pearson |
| --- | --- | --- |
| this model | {spearman:.3f} | {pearson:.3f} |
{others}
```python
import litebert

predictor = litebert.Predictor.load("bundled-sentences")
vectors = predictor.embed(["A man plays a guitar.", "Somebody makes music."])
```

`litebert embed` uses it unless another model is named; sentence-transformers and transformers read
the folder too. It is small: most of what it knows is which words are near each other. Long texts,
languages other than English, and questions about facts are beyond it.
"""


_NAMES = {"words": "cosines of tf-idf, no model", "untrained": "the pretrained model before it was taught"}


def main() -> None:
    """Command line; `runs/taught_cpu.sh` calls it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="a finished fine-tuning run")
    parser.add_argument("--data", required=True, help="what the sentences are, and their licence")
    parser.add_argument("--teacher", default="all-MiniLM-L6-v2 (Apache-2.0)", help="its name")
    parser.add_argument("--teacher-spearman", type=float, help="of the teacher on the same dev")
    parser.add_argument("--out", type=Path, default=bundled_folder(SENTENCES))
    options = parser.parse_args()
    source = options.run / "model"
    result = from_dict(FinetuneResult, read_json(options.run / RESULT_FILE), str(options.run))
    shape = load_config(source)
    rows = [
        f"| {_NAMES.get(name, name)} | {scores['spearman']:.3f} | {scores['pearson']:.3f} |\n"
        for name, scores in result.baselines.items()
    ]
    if options.teacher_spearman is not None:
        rows.append(f"| the teacher | {options.teacher_spearman:.3f} | |\n")
    card = _CARD.format(
        teacher=options.teacher,
        parameters=count_parameters(shape).encoder,
        hidden=shape.hidden_size,
        layers=shape.num_layers,
        examples=result.train_examples,
        epochs=result.epochs,
        minutes=result.seconds / 60,
        data=options.data,
        dev=result.dev_examples,
        spearman=result.scores["spearman"],
        pearson=result.scores["pearson"],
        others="".join(rows),
    )
    with atomic_folder(options.out, replace=True) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        write_half_precision(source / WEIGHTS_FILE, folder / WEIGHTS_FILE)
        (folder / "README.md").write_text(card, encoding="utf-8")
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > MAX_BYTES:
            raise CheckpointError(f"the folder would have {size:,} bytes of {MAX_BYTES:,}")
    print(f"{options.out}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
