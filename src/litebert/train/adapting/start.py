"""The start of a new word table: equal pieces copied, others from the mean of their old pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from litebert.common.rng import derived_seed
from litebert.interop.hf import load_model, save_model
from litebert.model.heads import PretrainingModel
from litebert.text.extend import OldPieces
from litebert.text.tokenizer import Tokenizer

_TABLE, _BIAS = "encoder.embeddings.word.weight", "mlm.bias"


def old_rows(new: Tokenizer, old: Tokenizer) -> list[list[int]]:
    """For each new piece the rows of the old table that it starts from; none: nothing is known.

    Special pieces are matched by their roles; what the old vocabulary does not know counts as
    nothing.
    """
    pieces, unknown = OldPieces(old), old.unk_id
    rows = [
        [index for index in pieces.of(new, piece) if index != unknown]
        for piece in range(new.vocab_size)
    ]
    for piece, twin in zip(new.special_ids, old.special_ids, strict=True):
        rows[piece] = [twin]
    return rows


def mean_rows(table: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """A table whose rows are means of rows of another, in its type; of all where there are none.

    A mean of one row is that row, to the bit.
    """
    whole = table.double().mean(0)
    means = [table[list(found)].double().mean(0) if found else whole for found in rows]
    return torch.stack(means).to(table.dtype)


def write_start(source: Path, tokenizer: Path, out: Path, seed: int) -> None:
    """Write a model folder: the weights of another with a word table for another tokenizer.

    Positions, segments, layers and heads stay; the bias of each word starts like its row. A model
    without a masked-word head gets a fresh one.
    """
    generator = torch.Generator().manual_seed(derived_seed(seed, "initial weights"))
    old = load_model(source, "pretraining", new_head=True, generator=generator)
    assert isinstance(old, PretrainingModel), "asked for by the head's name"
    rows = old_rows(Tokenizer.load(tokenizer), Tokenizer.load(source))
    weights = old.state_dict()
    weights |= {name: mean_rows(weights[name], rows) for name in (_TABLE, _BIAS)}
    model = PretrainingModel(replace(old.config, vocab_size=len(rows)))
    model.load_state_dict(weights)
    save_model(model, out, tokenizer)
