"""Pretrain a small ALBERT on a folder of text, from Python.

    python examples/pretrain_folder.py my-texts/ runs/mine [--steps 2000] [--preset albert-tiny]

Writes a tokenizer, token shards and a run folder; the model is in OUT/run/model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import litebert


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="a folder or file of text")
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", default="albert-tiny")
    parser.add_argument("--vocab-size", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    tokenizer, shards = options.out / "tokenizer", options.out / "shards"

    # 1. A vocabulary of the text's own; a small text gets fewer pieces.
    vocab_size = options.vocab_size
    litebert.train_tokenizer(litebert.TokenizerTrainConfig((options.corpus,), tokenizer, vocab_size, shrink=True))

    # 2. The text as tokens, once. Pairs and masks are drawn while training.
    litebert.prepare(litebert.PrepareConfig((options.corpus,), tokenizer, shards, dev_fraction=0.1))

    # 3. Train. Small models learn faster if heads begin at their neighbours.
    config = litebert.PretrainConfig(
        data=shards,
        out=options.out / "run",
        steps=options.steps,
        batch_size=16,
        model=litebert.ModelSection(preset=options.preset),
        initial=litebert.InitialWeights(attention="neighbours", word_bias="frequencies"),
        examples=litebert.ExampleConfig(length=64, micro_batch_size=16),
        optimizer=litebert.OptimizerConfig(name="adamw", bias_correction=True),
    )
    result = litebert.pretrain(config)
    print(f"model: {result.model}")
    if result.scores is not None:
        scores = result.scores
        print(f"dev loss at [MASK] {scores.masked_loss:.2f}, unigram {scores.unigram_loss:.2f}")


if __name__ == "__main__":
    main()
