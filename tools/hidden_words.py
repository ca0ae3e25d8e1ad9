"""How many hidden words of held-out sentences a model finds, beside word frequencies alone."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from litebert.common.errors import DataError
from litebert.common.rng import rng
from litebert.data.corpus.shards import ShardSet
from litebert.interop.hf import load_model
from litebert.model.config import ModelConfig
from litebert.model.heads import PretrainingModel
from litebert.text.tokenizer import Tokenizer

TOP = 5
_LENGTHS = range(10, 61)
"""Sentences of so many pieces: enough to go by, short enough to read."""
_BATCH = 32


@dataclass(frozen=True)
class HiddenWords:
    """Shares of hidden words found; a word here is one piece that is a whole word."""

    sentences: int
    model_top1: float
    model_top5: float
    """the word is among the five likeliest"""
    random_top1: float
    """by a model of the same shape with random weights"""
    random_top5: float
    unigram_top1: float
    """by always saying the most frequent whole words of the training text"""
    unigram_top5: float


def find_hidden_words(model_folder: Path, shards: Path, count: int = 500) -> HiddenWords:
    """Hide one word in each of ``count`` dev sentences and ask the model for it.

    Sentences and places come from a fixed seed, so that models of one vocabulary are comparable.

    Args:
        model_folder: a model with its masked-word head.
        shards: folder of token shards whose dev documents the model has not seen.
        count: sentences, spread over the dev documents.
    """
    tokenizer = Tokenizer.load(model_folder)
    dev = ShardSet.open(shards, "dev")
    questions = _questions(dev, tokenizer, count)
    golds = np.array([gold for _, _, gold in questions])
    model = load_model(model_folder, "masked_lm")
    assert isinstance(model, PretrainingModel), "the head that was asked for"
    untrained = _untrained(model.config)
    counts = ShardSet.open(shards, "train").unigram_counts()
    # Only whole words are hidden, so only they are worth guessing.
    words = np.array([_is_word(tokenizer, piece) for piece in range(len(counts))])
    frequent = np.argsort(-np.where(words, counts, -1), kind="stable")[:TOP]
    unigram = np.tile(frequent, (len(golds), 1))
    found = [_guesses(model, questions, tokenizer.pad_id)]
    found += [_guesses(untrained, questions, tokenizer.pad_id), unigram]
    shares = [float((guesses[:, :top] == golds[:, None]).any(1).mean()) for guesses in found for top in (1, TOP)]
    return HiddenWords(len(golds), *(round(share, 4) for share in shares))


def _questions(dev: ShardSet, tokenizer: Tokenizer, count: int) -> list[tuple[list[int], int, int]]:
    """Return ``(ids with one [MASK], its place, the hidden id)`` of sentences."""
    starts = tokenizer.word_starts
    found: list[tuple[list[int], int, int]] = []
    sentences = []
    for shard in dev.shards:
        tokens, offsets = shard.tokens, shard.sentence_offsets
        sentences += [tokens[a:b] for a, b in itertools.pairwise(offsets.tolist())]
    order = rng(0, "hidden words").permutation(len(sentences))
    for number in order:
        ids = sentences[number].astype(np.int64)
        if len(ids) not in _LENGTHS:
            continue
        # A whole word: its successor starts a word too.
        places = [
            place for place in range(len(ids) - 1) if starts[ids[place + 1]] and _is_word(tokenizer, int(ids[place]))
        ]
        if not places:
            continue
        place = places[int(rng(0, "hidden word", int(number)).integers(len(places)))]
        hidden = int(ids[place])
        ids[place] = tokenizer.mask_id
        found.append(([tokenizer.cls_id, *ids.tolist(), tokenizer.sep_id], place + 1, hidden))
        if len(found) == count:
            break
    if not found:
        raise DataError("the dev documents hold no sentence to hide a word in; prepare more text")
    return sorted(found, key=lambda question: len(question[0]))


def _is_word(tokenizer: Tokenizer, piece_id: int) -> bool:
    piece = tokenizer.id_to_piece(piece_id)
    return piece.startswith("▁") and piece[1:].isalpha()


def _untrained(config: ModelConfig) -> PretrainingModel:
    return PretrainingModel(config, generator=torch.Generator().manual_seed(0)).eval()


def _guesses(model: PretrainingModel, questions: list[tuple[list[int], int, int]], pad_id: int) -> np.ndarray:
    """Return the likeliest ids at each hidden word; int64 [len(questions), TOP]."""
    rows = []
    for start in range(0, len(questions), _BATCH):
        batch = questions[start : start + _BATCH]
        length = max(len(ids) for ids, _, _ in batch)
        ids_BS = torch.full((len(batch), length), pad_id)
        mask_BS = torch.zeros((len(batch), length), dtype=torch.int64)
        for row, (ids, _, _) in enumerate(batch):
            ids_BS[row, : len(ids)] = torch.tensor(ids)
            mask_BS[row, : len(ids)] = 1
        places_M = torch.tensor([row * length + place for row, (_, place, _) in enumerate(batch)])
        with torch.no_grad():
            logits_MV = model(ids_BS, mask_BS, None, places_M).mlm_logits_MV
        rows.append(logits_MV.topk(TOP).indices.numpy())
    return np.concatenate(rows)
