"""Find the sentences of a text that are nearest to a query, by their embeddings.

    python examples/search_sentences.py book.txt "a storm at sea" [--model MODEL] [--top 5]

The vectors are means over the tokens of the last layer. A model that was only pretrained compares
words and style more than meaning; one that was fine-tuned on pairs of sentences compares better.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from litebert import Predictor, split_sentences

Vectors = npt.NDArray[np.float32]


def unit_vectors(predictor: Predictor, texts: list[str], centre: Vectors) -> Vectors:
    """Return vectors of length 1; float32 [len(texts), H].

    The mean of all sentences is subtracted: it is most of every vector and says nothing.
    """
    vectors: Vectors = predictor.embed(texts) - centre
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("query", nargs="+")
    parser.add_argument("--model", default="bundled", help="a model folder or ONNX folder")
    parser.add_argument("--top", type=int, default=5)
    options = parser.parse_args()
    paragraphs = options.text.read_text(encoding="utf-8").splitlines()
    sentences = list(dict.fromkeys(s for p in paragraphs for s in split_sentences(p)))
    predictor = Predictor.load(options.model)
    centre = predictor.embed(sentences).mean(axis=0)
    index = unit_vectors(predictor, sentences, centre)
    for query, vector in zip(options.query, unit_vectors(predictor, options.query, centre), strict=True):
        print(f"{query}  ({len(sentences):,} sentences)")
        similarity = index @ vector
        for place in np.argsort(-similarity)[: options.top]:
            print(f"  {similarity[place]:.3f}  {sentences[place]}")


if __name__ == "__main__":
    main()
