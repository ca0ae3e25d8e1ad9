"""Draw the word table of a model towards what a sentence encoder knows of its words.

The encoder's own table and its vectors of the words as texts, side by side, are cut to as many directions as the
model's table has, turned towards it (Procrustes) and mixed with it; each word keeps its length. The rest of the model
is as it was: train it further, so that it learns to read and to predict the table again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.linalg import norm
from sentence_transformers import SentenceTransformer

from litebert.interop.folder import resolve
from litebert.interop.hf import load_model, save_model
from litebert.model.pretraining import PretrainingModel
from litebert.tasks.base import FloatArray
from litebert.text.tokenizer import Tokenizer
from litebert.train.teacher_vectors import aligned, fitted


def directions(vectors: FloatArray) -> FloatArray:
    """Vectors [N, D] without their mean, of length 1; a vector without a direction stays 0."""
    centred = vectors - vectors.mean(0)
    lengths: FloatArray = np.maximum(norm(centred, axis=1, keepdims=True), 1e-9)
    return np.asarray(centred / lengths, np.float32)


def known_words(tokenizer: Tokenizer) -> list[tuple[int, str, bool]]:
    """Ids of the pieces that stand for text, with that text and whether a word begins with them."""
    spelled = ((number, *tokenizer.spell(number)) for number in range(tokenizer.vocab_size))
    special = set(tokenizer.special_ids)
    return [(number, text, starts) for number, starts, text in spelled if text and number not in special]


def encoder_vectors(encoder: SentenceTransformer, words: list[tuple[int, str, bool]]) -> FloatArray:
    """What the encoder's word table and the encoder as a whole say of each piece, [N, 2 D]."""
    transformer: Any = encoder[0]  # sentence-transformers' types know nothing of the model inside
    table = transformer.auto_model.get_input_embeddings().weight.detach().numpy()
    own = encoder.tokenizer
    rows = []
    for _, text, starts in words:
        inner = own.convert_tokens_to_ids(f"##{text}")
        ids = [inner] if not starts and inner != own.unk_token_id else own(text, add_special_tokens=False)["input_ids"]
        rows.append(table[ids].mean(0) if ids else np.zeros_like(table[0]))
    whole: FloatArray = encoder.encode([text for _, text, _ in words], normalize_embeddings=True)
    return np.concatenate((directions(np.stack(rows)), directions(whole)), axis=1)


def blended(own: FloatArray, told: FloatArray, share: float) -> FloatArray:
    """Mix the directions of own vectors [N, E] with those told [N, D], turned towards them; lengths stay.

    >>> own = np.eye(4, 2, dtype=np.float32)
    >>> bool(np.allclose(blended(own, np.eye(4, 3), 0.0), own, atol=1e-6))
    True
    """
    mean, ours = own.mean(0), directions(own)
    mixed = (1.0 - share) * ours + share * aligned(fitted(directions(told), own.shape[1]), ours)
    mixed /= np.maximum(norm(mixed, axis=1, keepdims=True), 1e-9)
    return np.asarray(mean + mixed * norm(own - mean, axis=1, keepdims=True), np.float32)


def main() -> None:
    """Write the model folder with the blended table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a model folder with the heads of pretraining, or bundled")
    parser.add_argument("encoder", help="a folder or hub name that sentence-transformers loads")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--share", type=float, default=0.5, help="of the encoder in the mixture")
    options = parser.parse_args()
    folder = resolve(options.model)
    model = load_model(folder, "pretraining")
    assert isinstance(model, PretrainingModel), "asked for by the head's name"
    words = known_words(Tokenizer.load(folder))
    told = encoder_vectors(SentenceTransformer(options.encoder, device="cpu"), words)
    table = model.encoder.embeddings.word.weight
    ids = torch.tensor([number for number, _, _ in words])
    with torch.no_grad():
        table[ids] = torch.from_numpy(blended(table[ids].numpy(), told, options.share)).to(table.dtype)
    save_model(model, options.out, folder)
    print(f"{options.out}: {len(words):,} of {len(table):,} words")


if __name__ == "__main__":
    main()
