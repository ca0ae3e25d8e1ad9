"""The start of a new word table: equal pieces copied, others from the mean of their old pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from litebert.common.rng import derived_seed
from litebert.data.batches.example import ExampleConfig, Vocabulary
from litebert.data.corpus.shards import ShardSet, tokenizer_of
from litebert.interop.hf import load_model, save_model
from litebert.model.heads import PretrainingModel
from litebert.text.extend import OldPieces
from litebert.text.tokenizer import Tokenizer
from litebert.train.pretraining.evaluate import DevSet
from litebert.train.pretraining.objective import inputs_of

SAMPLE_EXAMPLES = 256
"""Of the training text, to see how often each piece is predicted."""
LEAST_SHARE = 1e-7
"""Of all predictions: what is never predicted in the sample may be predicted elsewhere."""
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


@torch.no_grad()
def fit_frequencies(model: PretrainingModel, shards: Path) -> None:
    """Shift the output bias so that each piece is predicted as often as it occurs in shards.

    By the log of that ratio over a sample: what training would take long to do, for a bias moves
    by no more than the learning rate in a step.
    """
    text, length = ShardSet.open(shards, "train"), min(128, model.config.max_positions)
    settings = ExampleConfig(length=length)
    vocabulary = Vocabulary.of(tokenizer_of([text]))
    sample = DevSet([text], text.unigram_counts(), settings, vocabulary, batch_size=32)
    predicted = torch.zeros(model.config.vocab_size, dtype=torch.float64)
    for batch in sample.batches("sop", SAMPLE_EXAMPLES):
        places = torch.from_numpy(batch.masked_positions)
        inputs = inputs_of(batch, torch.device("cpu"))
        places = places[inputs[0].flatten()[places] == vocabulary.mask_id]
        logits = model(*inputs, masked_positions_M=places).mlm_logits_MV
        predicted += logits.softmax(-1).double().sum(0)
    share = predicted / predicted.sum().clamp(min=1.0) + LEAST_SHARE
    wanted = torch.from_numpy(sample.unigram_log_probability)
    model.mlm.bias.add_((wanted - share.log()).float())


def write_start(
    source: Path, tokenizer: Path, out: Path, seed: int, shards: Path | None = None
) -> None:
    """Write a model folder: the weights of another with a word table for another tokenizer.

    Positions, segments, layers and heads stay; the bias of each word starts like its row, and is
    then fitted to ``shards``. A model without a masked-word head gets a fresh one.
    """
    generator = torch.Generator().manual_seed(derived_seed(seed, "initial weights"))
    old = load_model(source, "pretraining", new_head=True, generator=generator)
    assert isinstance(old, PretrainingModel), "asked for by the head's name"
    rows = old_rows(Tokenizer.load(tokenizer), Tokenizer.load(source))
    weights = old.state_dict()
    weights |= {name: mean_rows(weights[name], rows) for name in (_TABLE, _BIAS)}
    model = PretrainingModel(replace(old.config, vocab_size=len(rows)))
    model.load_state_dict(weights)
    if shards is not None:
        fit_frequencies(model.eval(), shards)
    save_model(model, out, tokenizer)
