"""Texts and pairs of texts with vectors made from those of a sentence encoder, for pretraining.

A text has the encoder's vector. A pair has one that says how alike its two texts are (a place on a
half circle, by their cosine) and what both are about (the sum of their vectors): `[CLS]` of a model
that learns it has to compare the texts it reads.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from embed_sentences import sentences_by_line
from reservoir import drawn
from sentence_transformers import SentenceTransformer
from teacher_pairs import neighbours

from litebert.tasks.base import FloatArray, IntArray
from litebert.text.sentences import split_sentences

_WORDS = range(4, 41)
"""Of a sentence that is taken."""
_LIKENESS = 0.6
"""Share of a pair's squared length that says how alike its texts are."""
_WORD_COUNT = 4
"""Of a word that is taken alone."""
_NEAREST = 30
_GROUP = 16_384
"""Sentences among which the nearest are looked for at a time."""

Pair = tuple[str, str]


def neighbouring_sentences(path: Path, count: int, seed: int) -> list[Pair]:
    """Draw sentences with the one after each."""
    lines = sentences_by_line(path, "en")
    found = (pair for sentences in lines for pair in pairwise(sentences))
    return drawn((p for p in found if all(len(s.split()) in _WORDS for s in p)), count, seed)


def questions_with_sentences(path: Path, count: int, seed: int) -> list[Pair]:
    """Draw questions of SQuAD, each with two sentences of its paragraph."""
    generator = random.Random(seed)
    found: list[Pair] = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            sentences = [s.strip() for s in split_sentences(paragraph["context"], "en")]
            sentences = [s for s in sentences if len(s.split()) in _WORDS]
            if len(sentences) < 2:
                continue
            for entry in paragraph["qas"]:
                answer = entry["answers"][0]["text"]
                given = [s for s in sentences if answer in s] or sentences
                chosen = generator.choice(given)
                other = generator.choice([s for s in sentences if s != chosen] or sentences)
                question = entry["question"].strip()
                found += [(question, chosen), (question, other)]
    return generator.sample(found, min(count, len(found)))


def words_and_phrases(sentences: list[str], seed: int) -> Iterator[str]:
    """Words that occur often enough, and of every second sentence a few words in a row."""
    generator = random.Random(seed)
    words = Counter(w for sentence in sentences for w in re.findall(r"[^\W\d_]+", sentence.lower()))
    yield from (word for word, count in words.items() if count >= _WORD_COUNT)
    for sentence in sentences[::2]:
        parts = sentence.split()
        size = generator.randint(2, 7)
        begin = generator.randrange(max(1, len(parts) - size))
        yield " ".join(parts[begin : begin + size])


def pair_vectors(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the vectors [N, D + 2] of pairs from those of their texts, [N, D] of length 1."""
    angle = np.pi * np.clip((first * second).sum(1), 0.0, 1.0)
    both = first + second
    both /= np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-9)
    likeness = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    parts = (np.sqrt(1.0 - _LIKENESS) * both, np.sqrt(_LIKENESS) * likeness)
    return np.concatenate(parts, axis=1).astype(np.float32)


def further_pairs(vectors: FloatArray, seed: int) -> Iterator[tuple[int, int]]:
    """Pair each text with one that is near by the encoder, and a third of them with any other."""
    order = np.random.default_rng(seed).permutation(len(vectors))
    for begin in range(0, len(order), _GROUP):
        group = order[begin : begin + _GROUP]
        if len(group) > _NEAREST + 1:
            for one, other, _ in neighbours(vectors[group], range(_NEAREST), seed):
                yield int(group[one]), int(group[other])
    yield from zip(order[::3].tolist(), order[1::3].tolist(), strict=False)


def main() -> None:
    """Write a table with the columns text, text_pair and embedding, in a random order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder", help="a folder or hub name that sentence-transformers loads")
    parser.add_argument("out", type=Path, help="Parquet file to write")
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="text files")
    parser.add_argument("--squad", type=Path, help="SQuAD's training file, for questions")
    parser.add_argument("--count", type=int, default=25_000, help="pairs drawn of each file")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pairs = [pair for path in options.input for pair in neighbouring_sentences(path, options.count, options.seed)]
    if options.squad is not None:
        pairs += questions_with_sentences(options.squad, 2 * options.count, options.seed)
    sentences = list(dict.fromkeys(text for pair in pairs for text in pair))
    texts = list(dict.fromkeys((*sentences, *words_and_phrases(sentences, options.seed))))
    encoder = SentenceTransformer(options.encoder, device="cpu")
    vectors: FloatArray = encoder.encode(texts, show_progress_bar=True, normalize_embeddings=True)
    place = {text: number for number, text in enumerate(texts)}
    joined = [(place[one], place[other]) for one, other in pairs]
    joined += further_pairs(vectors[: len(sentences)], options.seed)
    ends: IntArray = np.array(joined)
    told = pair_vectors(vectors[ends[:, 0]], vectors[ends[:, 1]])

    order = np.random.default_rng(options.seed).permutation(len(texts) + len(joined))
    alone = np.pad(vectors, ((0, 0), (0, 2)))
    embeddings = np.concatenate((alone, told))[order].astype(np.float32)
    firsts = [*texts, *(texts[one] for one, _ in joined)]
    seconds = [*(None for _ in texts), *(texts[other] for _, other in joined)]
    table = {
        "text": [firsts[number] for number in order],
        "text_pair": pyarrow.array([seconds[number] for number in order], pyarrow.string()),
        "embedding": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(embeddings.reshape(-1)), embeddings.shape[1]),
    }
    pyarrow.parquet.write_table(pyarrow.table(table), options.out)
    print(f"{options.out}: {len(texts):,} texts, {len(joined):,} pairs")


if __name__ == "__main__":
    main()
