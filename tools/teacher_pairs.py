"""Pairs of related sentences with a teacher's cosines as scores, from the file of its vectors."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from litebert.common.files import write_json_lines
from litebert.common.rows import read_rows
from litebert.tasks.base import FloatArray

_ROWS = 2048
"""of the matrix of all cosines at a time"""


def neighbours(vectors: FloatArray, ranks: range, seed: int) -> Iterator[tuple[int, int, float]]:
    """For each vector of length 1 one of its nearest others, drawn from some ranks.

    Sentences drawn at random have nothing in common, and a cosine near 0 teaches little.
    """
    drawn = np.random.default_rng(seed).integers(ranks.start, ranks.stop, len(vectors))
    for begin in range(0, len(vectors), _ROWS):
        cosines = vectors[begin : begin + _ROWS] @ vectors.T
        nearest = np.argpartition(-cosines, ranks.stop, axis=1)[:, : ranks.stop + 1]
        for row, found in enumerate(nearest):
            one = begin + row
            others = found[np.argsort(-cosines[row, found])]
            other = int(others[others != one][drawn[one]])
            yield one, other, float(cosines[row, other])


def main() -> None:
    """Write JSON lines with text, text_pair and score; runs/taught_cpu.sh calls it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, help="Parquet with the columns text and embedding")
    parser.add_argument("out", type=Path, help="JSON lines to write")
    parser.add_argument("--pairs", type=Path, help="JSON lines with text and text_pair, to score")
    parser.add_argument("--nearest", type=int, default=30, help="neighbours to draw from")
    parser.add_argument("--draws", type=int, default=1, help="neighbours drawn for each sentence")
    options = parser.parse_args()
    rows = [row for _, row in read_rows(options.vectors)]
    texts = [str(row["text"]) for row in rows]
    vectors = np.asarray([row["embedding"] for row in rows], np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    place = {text: index for index, text in enumerate(texts)}
    found = []
    if options.pairs is not None:
        for line in options.pairs.read_text(encoding="utf-8").splitlines():
            one, other = (place.get(json.loads(line)[name]) for name in ("text", "text_pair"))
            if one is not None and other is not None:
                found.append((one, other, float(vectors[one] @ vectors[other])))
    given = len(found)
    for seed in range(options.draws):
        found += neighbours(vectors, range(options.nearest), seed)
    write_json_lines(
        options.out,
        (
            {"text": texts[one], "text_pair": texts[other], "score": max(0.0, min(1.0, cosine))}
            for one, other, cosine in found
        ),
    )
    print(f"{options.out}: {given:,} given pairs, {len(found) - given:,} neighbours")


if __name__ == "__main__":
    main()
