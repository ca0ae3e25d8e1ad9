"""Sentences drawn from texts with the vectors that a sentence encoder has for them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from reservoir import drawn
from sentence_transformers import SentenceTransformer

from litebert.common.rows import write_vectors
from litebert.text.corpus import TextLines, find_files
from litebert.text.sentences import split_sentences

_WORDS = range(4, 31)
"""Of a sentence that is taken."""


def sentences_by_line(path: Path, language: str) -> Iterator[list[str]]:
    """Read the sentences of each line of a file."""
    for line in TextLines([path]):
        if line.strip():
            yield [sentence.strip() for sentence in split_sentences(line, language)]


def drawn_sentences(path: Path, count: int, language: str, seed: int) -> list[str]:
    """Draw different sentences of a file."""
    lines = sentences_by_line(path, language)
    found = (s for sentences in lines for s in sentences if len(s.split()) in _WORDS)
    return list(dict.fromkeys(drawn(found, count, seed)))


def main() -> None:
    """Write a table with the columns text and embedding, the VECTORS of two scripts in runs/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder", help="a folder or hub name that sentence-transformers loads")
    parser.add_argument("out", type=Path, help=".parquet or .jsonl")
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="text files")
    parser.add_argument("--count", type=int, default=50_000, help="sentences of each file")
    parser.add_argument("--language", default="en")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    texts = [
        text
        for path in find_files(options.input)
        for text in drawn_sentences(path, options.count, options.language, options.seed)
    ]
    vectors = SentenceTransformer(options.encoder, device="cpu").encode(
        texts, show_progress_bar=True, normalize_embeddings=True
    )
    rows = ({"text": text, "embedding": vector.tolist()} for text, vector in zip(texts, vectors, strict=True))
    write_vectors(options.out, rows, vectors.shape[1])


if __name__ == "__main__":
    main()
