"""Search many texts by meaning: `litebert embed` once, then a FAISS index that is kept in a file.

    litebert embed --model MODEL --input texts.txt --out vectors.npy
    python examples/search_index.py texts.txt vectors.npy "a storm at sea" --model MODEL

MODEL is one that was fine-tuned with `kind = "similarity"` (docs/embeddings.md); its vectors have
length 1, so that the inner product is the cosine. Needs `pip install faiss-cpu`. An exact index is
fast enough for a million texts; FAISS has approximate ones (`IndexHNSWFlat`) of the same interface.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import faiss
import numpy as np

from litebert import Predictor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, help="a text on each line, as litebert embed read them")
    parser.add_argument("vectors", type=Path, help="what litebert embed wrote (.npy)")
    parser.add_argument("query", nargs="+")
    parser.add_argument("--model", default="bundled", help="the folder that made the vectors")
    parser.add_argument("--index", type=Path, help="keep the index here; used if it exists")
    parser.add_argument("--top", type=int, default=5)
    options = parser.parse_args()
    texts = options.texts.read_text(encoding="utf-8").splitlines()
    if options.index is not None and options.index.is_file():
        index = faiss.read_index(str(options.index))
    else:
        vectors = np.nan_to_num(np.load(options.vectors))  # a row without a text has none
        faiss.normalize_L2(vectors)
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        if options.index is not None:
            faiss.write_index(index, str(options.index))
    asked = Predictor.load(options.model).embed(options.query)
    faiss.normalize_L2(asked)
    for query, scores, places in zip(options.query, *index.search(asked, options.top), strict=True):
        print(f"{query}  ({index.ntotal:,} texts)")
        for score, place in zip(scores, places, strict=True):
            print(f"  {score:.3f}  {texts[place]}")


if __name__ == "__main__":
    main()
