"""Speed of the loader: tokens/s with pairs and masks, and the share of padding, beside a collator.

    python bench/loader.py [--shards DIR] [--seconds 10] [--workers 1]

Without ``--shards`` a slice of the reference corpus is prepared once into build/bench (random text
where it is missing). The peer is transformers' DataCollatorForLanguageModeling on examples that are
cut already: it draws masks of tokens or of whole words (then [MASK] only), no n-grams, no pairs.
"""

from __future__ import annotations

import argparse
import os
import time
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from machine import on_this_machine, ratio_text

from litebert.common.files import open_binary
from litebert.data.batches.example import ExampleConfig, Task
from litebert.data.batches.loader import Loader
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.manifest import Manifest
from litebert.data.corpus.prepare import prepare
from litebert.data.corpus.shards import Documents, ShardSet, seal_split, shard_path, token_dtype, write_shard

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
SLICE_BYTES = 20_000_000
TARGETS = {512: 250_000, 128: 120_000}


def corpus_shards() -> Path:
    """Shards of a slice of the reference corpus, or of random documents."""
    folder = REPOSITORY / "build" / "bench" / "loader"
    model = SHARED / "fixtures" / "official" / "spiece.model"
    if (folder / "shards" / "manifest.json").is_file():
        return folder / "shards"
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    if not model.is_file():
        return random_shards(folder / "shards")
    (folder / "tokenizer" / model.name).write_bytes(model.read_bytes())
    for name in ("wiki.txt.xz", "novels.txt.xz"):
        with open_binary(SHARED / "data" / "corpus" / name) as stream:
            (folder / name.removesuffix(".xz")).write_bytes(stream.read(SLICE_BYTES))
    inputs = (folder / "wiki.txt", folder / "novels.txt")
    prepare(PrepareConfig(inputs, folder / "tokenizer", folder / "shards", restart=True))
    return folder / "shards"


def random_shards(folder: Path) -> Path:
    generator = np.random.default_rng(0)
    document_lengths = generator.integers(5, 300, size=1500)
    sentence_lengths = 2 + generator.poisson(25, size=document_lengths.sum())
    tokens = generator.integers(5, 30_000, size=sentence_lengths.sum())
    documents = Documents(tokens.astype(token_dtype(30_000)), sentence_lengths, document_lengths)
    write_shard(shard_path(folder, "train", 0), documents)
    splits = {"train": seal_split(folder, "train", 30_000)}
    Manifest(30_000, token_dtype(30_000).name, splits=splits).write(folder)
    return folder


def open_loader(shards: Path, config: ExampleConfig) -> Loader:
    if (shards / "tokenizer").is_dir():
        return Loader.open([shards], config, seed=1)
    from litebert.data.batches.example import Vocabulary

    words = np.random.default_rng(0).random(30_000) < 0.7
    return Loader([(ShardSet.open(shards, "train"), 1.0)], config, 1, Vocabulary(words))


def measure_loader(loader: Loader, seconds: float, workers: int) -> tuple[float, float, int]:
    """Tokens per second without padding, share of padding, batches. Reading windows is included."""
    tokens = places = batches = 0
    iterator = loader.iterate(num_workers=workers)
    if workers:
        next(iterator)  # starting a process is not loading
    start = time.perf_counter()
    for batch in iterator:
        tokens += batch.num_tokens
        places += batch.input_ids.size
        batches += 1
        if time.perf_counter() - start > seconds:
            break
    elapsed = time.perf_counter() - start
    iterator.close()  # type: ignore[attr-defined]
    return tokens / elapsed, 1 - tokens / places, batches


def collator_batches(shards: Path, length: int, batch_size: int, whole_words: bool) -> list[list[Any]]:
    """What the collator takes fastest: arrays, or what it needs to find words, of full length."""
    from transformers import AutoTokenizer

    text = ShardSet.open(shards, "train").shards[0].tokens[: length * batch_size * 40]
    rows: list[Any] = list(text[: len(text) // length * length].astype(np.int64).reshape(-1, length))
    if whole_words:
        tokenizer = AutoTokenizer.from_pretrained(shards / "tokenizer")
        columns = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        encoded = [tokenizer(tokenizer.decode(row), **columns) for row in rows]
        size = length * 9 // 10  # a decoded row may become a little shorter
        rows = [{k: v[:size] for k, v in e.items()} for e in encoded if len(e["input_ids"]) >= size]
    ends = range(batch_size, len(rows) + 1, batch_size)
    return [rows[end - batch_size : end] for end in ends]


def measure_collator(shards: Path, length: int, batch_size: int, seconds: float, whole_words: bool) -> float:
    """Tokens per second of transformers' collator."""
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    tokenizer = AutoTokenizer.from_pretrained(shards / "tokenizer")
    collate = DataCollatorForLanguageModeling(tokenizer, return_tensors="np", seed=1, whole_word_mask=whole_words)
    batches = collator_batches(shards, length, batch_size, whole_words)
    tokens, start = 0, time.perf_counter()
    for batch in cycle(batches):
        tokens += collate([dict(e) for e in batch] if whole_words else batch)["input_ids"].size
        if time.perf_counter() - start > seconds:
            break
    return tokens / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=Path, help="folder made by `litebert prepare`")
    parser.add_argument("--seconds", type=float, default=10.0, help="time of each measurement")
    parser.add_argument("--workers", type=int, default=1, help="worker processes")
    parser.add_argument("--rounds", type=int, default=2, help="turns with the peer")
    arguments = parser.parse_args()
    shards = arguments.shards or corpus_shards()
    count = ShardSet.open(shards, "train").num_tokens
    versions = f"numpy {np.__version__}, transformers {version('transformers')}"
    print(f"{shards}: {count:,} tokens; one thread; {versions}")
    print("length  batch  task  where            tokens/s  padding  batches")
    for length, batch_size in ((512, 32), (128, 64), (128, 16)):
        speeds = []
        tasks: tuple[Task, ...] = ("sop", "nsp", "none")
        for task in tasks:
            loader = open_loader(shards, ExampleConfig(length, batch_size, task))
            for workers in (0, arguments.workers) if task == "sop" else (0,):
                speed, padding, batches = measure_loader(loader, arguments.seconds, workers)
                speeds.append(speed)
                where = f"{workers} worker" if workers else "in process"
                row = f"{length:6}  {batch_size:5}  {task:4}  {where:12}  {speed:12,.0f}"
                print(f"{row}  {padding:7.2%}  {batches:7,}", flush=True)
        print(f"        slowest against the target of {TARGETS[length]:,} tokens/s: "
              f"{min(speeds) / TARGETS[length]:.1f}x")  # fmt: skip
        if (shards / "tokenizer" / "tokenizer.json").is_file():
            for whole_words in (False, True):
                kind = "whole words" if whole_words else "plain tokens"
                loader = open_loader(shards, ExampleConfig(length, batch_size, "sop"))
                theirs, ours = [], []
                for _ in range(arguments.rounds):
                    settings = (length, batch_size, arguments.seconds, whole_words)
                    theirs.append(1 / measure_collator(shards, *settings))
                    ours.append(1 / measure_loader(loader, arguments.seconds, 0)[0])
                print(
                    f"        transformers' collator, {kind}: {1 / min(theirs):,.0f} tokens/s; "
                    f"litebert {ratio_text(theirs, ours)}"
                )


if __name__ == "__main__":
    with on_this_machine():
        main()
