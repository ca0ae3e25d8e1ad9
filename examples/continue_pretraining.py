"""Continue the pretraining of a Hugging Face ALBERT folder on text of your domain.

    litebert import hf albert/albert-base-v2 models/albert-base-v2     # once, with a network
    python examples/continue_pretraining.py models/albert-base-v2 domain.txt runs/domain

The vocabulary stays the model's own. The result is a Hugging Face folder again: OUT/run/model.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from litebert import ExampleConfig, OptimizerConfig, PrepareConfig, PretrainConfig, ScheduleConfig, prepare, pretrain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a folder of transformers or litebert")
    parser.add_argument("text", type=Path, help="a file or folder of text")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--lr", type=float, default=5e-5)
    options = parser.parse_args()
    shards = options.out / "shards"
    prepare(PrepareConfig((options.text,), options.model, shards, dev_fraction=0.1))
    config = PretrainConfig(
        data=shards,
        out=options.out / "run",
        init_from=options.model,
        steps=options.steps,
        batch_size=options.batch_size,
        examples=ExampleConfig(options.length, min(8, options.batch_size)),
        optimizer=OptimizerConfig(name="adamw", lr=options.lr),
        schedule=ScheduleConfig(name="linear", warmup_share=0.1),
    )
    # A rate of nearly nothing for one step: how well does the model know the domain already?
    still = replace(config.optimizer, lr=1e-12)
    before = pretrain(replace(config, out=options.out / "before", steps=1, optimizer=still))
    after = pretrain(config)
    for name, result in (("before", before), ("after", after)):
        if result.scores is not None:
            loss, accuracy = result.scores.masked_loss, result.scores.masked_accuracy
            print(f"{name:<7} dev loss at [MASK] {loss:.3f}, words {accuracy:.1%}")
    print(f"model: {after.model}")


if __name__ == "__main__":
    main()
