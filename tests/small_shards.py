"""Shards of documents that are token ids already, for tests without a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from litebert.data.corpus.manifest import MANIFEST, Manifest, Split
from litebert.data.corpus.shards import (
    Documents,
    ShardSet,
    Tokens,
    cut_shards,
    seal_split,
    shard_path,
    token_dtype,
    write_shard,
)


def pack(documents: Iterable[Sequence[Sequence[int]]], vocab_size: int) -> Documents:
    """Pack documents given as lists of sentences given as lists of ids."""
    packed = list(documents)
    sentences = [sentence for document in packed for sentence in document]
    tokens = [token for sentence in sentences for token in sentence]
    return Documents(
        cast(Tokens, np.array(tokens, token_dtype(vocab_size))),
        np.array([len(sentence) for sentence in sentences], np.int64),
        np.array([len(document) for document in packed], np.int64),
    )


def write_documents(
    folder: Path | str,
    documents: Iterable[Sequence[Sequence[int]]],
    vocab_size: int,
    split: Split = "train",
    shard_tokens: int = 1 << 24,
) -> ShardSet:
    """Write documents of sentences of ids as a split of a folder, and open it.

    Call it once for each split; the folder gets no copy of a tokenizer.
    """
    folder = Path(folder)
    for index, shard in enumerate(cut_shards([pack(documents, vocab_size)], shard_tokens)):
        write_shard(shard_path(folder, split, index), shard)
    manifest = Manifest(vocab_size, token_dtype(vocab_size).name)
    if (folder / MANIFEST).is_file():
        manifest = Manifest.read(folder)
    entry = seal_split(folder, split, vocab_size)
    replace(manifest, splits={**manifest.splits, split: entry}).write(folder)
    return ShardSet.open(folder, split)
