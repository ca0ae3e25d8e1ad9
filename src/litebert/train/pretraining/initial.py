"""Weights that do not begin at random: heads on neighbours, words by contexts, copies of layers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from litebert.data.corpus.shards import ShardSet
from litebert.model.encoder import Encoder
from litebert.model.heads import PretrainingModel
from litebert.model.layers import Attention
from litebert.model.sharing import SharingPlan

SHORTEST_WAVE_TOKENS = 2.86
LONGEST_WAVE_TOKENS = 512.0
POSITION_TO_WORD = 2.5  # amplitude of the positions' waves in standard deviations of the words: positions prevail
PEAK_SCORE = 8.0  # attention score of the neighbour by position alone: a weight e^8 times that of the others
USED_WAVES = 0.4  # share of the waves, shortest first, that heads compare: long ones tell neighbours little
WINDOW = 2  # tokens to each side that count, the second half as much as the first
MOST_CONTEXTS = 2048  # columns of the counts on each side: the most frequent pieces
MOST_TOKENS = 10_000_000  # tokens that are counted; more change little
CONTEXT_POWER = 0.75  # frequent contexts weigh less than their share
ROUNDS = 4  # of the power iteration, enough for spectra as flat as those of words
_COUNTED_AT_ONCE = 2_000_000
_ROWS_AT_ONCE = 8192
_SETS = ("attention", "feed_forward", "norms")


def set_word_frequencies(model: PretrainingModel, counts: np.ndarray) -> None:
    """Start the output bias at the log frequency of each piece, from int64 counts [V or fewer]."""
    smoothed = torch.ones(len(model.mlm.bias), dtype=torch.float64)
    smoothed[: len(counts)] += torch.from_numpy(counts.astype(np.float64))
    with torch.no_grad():
        model.mlm.bias.copy_((smoothed / smoothed.sum()).log())


def look_at_neighbours(encoder: Encoder, generator: torch.Generator, most_heads: int = 8) -> None:
    """Give each head a neighbour to look at: the piece before, the one after, the second before...

    A freshly drawn attention looks everywhere alike, so a masked place sees the mean of all words; until what its
    neighbours say has found its way through that mean, a model learns nothing but word frequencies: the plateau on
    which small trainings get stuck.

    Positions become waves, of which a shift by n tokens is a rotation R_n. With queries G R_n x and keys G x, where G
    picks some waves, the score of tokens i and j is largest for j = i + n. Projection, values and outputs get the
    variance that keeps what they read at its size, so that a neighbour's word arrives clearly. At most ``most_heads``
    are set; the others stay as drawn, look everywhere alike, and are what [CLS] can gather a text with.
    """
    config, embeddings = encoder.config, encoder.embeddings
    width = config.position_size
    waves = wave_numbers(width // 2)
    with torch.no_grad():
        amplitude = POSITION_TO_WORD * config.initializer_range
        angles = torch.arange(config.max_positions)[:, None] * waves
        table = torch.cat([torch.sin(angles), torch.cos(angles)], 1)
        embeddings.position.weight.copy_(amplitude * nn.functional.pad(table, (0, width - table.shape[1])))
        back = torch.eye(width)
        if embeddings.projection is not None:
            _draw(embeddings.projection.weight, generator)
            if config.embedding_layout == "factorized":
                back = torch.linalg.pinv(embeddings.projection.weight)
        for attention in encoder.attention:
            assert isinstance(attention, Attention)
            _set_heads(attention, config.heads, most_heads, waves, back)
            _draw(attention.value.weight, generator)
            _draw(attention.output.weight, generator)


def new_sets(plan: SharingPlan, before: int, after: int) -> Iterator[tuple[str, int, int]]:
    """The parameter sets that begin to run when ``before`` layers become ``after``.

    Yields (kind, set, set it begins as). The new layers repeat the old ones from the first on, as a block that all
    layers share does; a set that has run already stays as it is.

    >>> from litebert.model.sharing import plan
    >>> list(new_sets(plan("ffn", 3), 2, 3))
    [('attention', 2, 0), ('norms', 2, 0)]
    """
    inner = plan.inner_group_num
    for kind in _SETS:
        used: tuple[int, ...] = getattr(plan, kind)
        known = set(used[: before * inner])
        for block in range(before * inner, after * inner):
            if used[block] not in known:
                known.add(used[block])
                yield kind, used[block], used[block % (before * inner)]


@torch.no_grad()
def deepen(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    sets: Iterator[tuple[str, int, int]],
    average: Mapping[str, Tensor],
) -> None:
    """Let sets of a model begin as copies of others: weights, their average, optimizer state.

    Copies of sharded tensors are shards of the copies, so processes need not talk.
    """
    parameters = dict(model.named_parameters())
    owners = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
    for kind, target, source in sets:
        prefix = f"encoder.{kind}.{target}."
        for name in [name for name in parameters if name.startswith(prefix)]:
            other = f"encoder.{kind}.{source}.{name.removeprefix(prefix)}"
            copy, original = parameters[name], parameters[other]
            copy.copy_(original)
            if name in average:
                average[name].copy_(average[other])
            if copy in owners:
                states = owners[copy].state
                for key, value in states.get(original, {}).items():
                    states[copy][key] = value.clone()


def spread(shared: nn.Module, model: nn.Module, inner_group_num: int) -> None:
    """Give every layer the one layer of a shared model, as the official ``init_from_group0``."""
    found, place = shared.state_dict(), re.compile(rf"^encoder\.({'|'.join(_SETS)})\.(\d+)\.")

    def source(match: re.Match[str]) -> str:
        return f"encoder.{match[1]}.{int(match[2]) % inner_group_num}."

    model.load_state_dict({name: found[place.sub(source, name)] for name in model.state_dict()})


def _set_heads(attention: Attention, num_heads: int, most_heads: int, waves: Tensor, back: Tensor) -> None:
    """Write queries and keys of the heads that get a neighbour; ``back`` is [width, H]."""
    head_size, width = attention.query.weight.shape[0] // num_heads, len(back)
    num_picked = head_size // 2
    picked = torch.linspace(0, (len(waves) - 1) * USED_WAVES, num_picked).round().long()
    keys, rows = torch.zeros(head_size, width), torch.arange(num_picked)
    scale = math.sqrt(PEAK_SCORE / math.sqrt(head_size))
    keys[rows, picked] = scale
    keys[rows + num_picked, picked + len(waves)] = scale
    for head in range(min(num_heads, most_heads)):
        shift = (head // 2 + 1) * (-1 if head % 2 == 0 else 1)
        # The matrix that turns the sines and cosines of an angle into those ``waves * shift`` later.
        cosine, sine = torch.diag(torch.cos(waves * shift)), torch.diag(torch.sin(waves * shift))
        rotation = torch.cat([torch.cat([cosine, sine], 1), torch.cat([-sine, cosine], 1)])
        rotation = nn.functional.pad(rotation, (0, width - 2 * len(waves)) * 2)
        part = slice(head * head_size, (head + 1) * head_size)
        attention.query.weight[part] = keys @ rotation @ back
        attention.key.weight[part] = keys @ back


def wave_numbers(count: int) -> Tensor:
    """Radians per token, geometric from the shortest wave to the longest."""
    shortest, longest = 2 * math.pi / SHORTEST_WAVE_TOKENS, 2 * math.pi / LONGEST_WAVE_TOKENS
    return torch.exp(torch.linspace(math.log(shortest), math.log(longest), count))


def _draw(weight: Tensor, generator: torch.Generator) -> None:
    """Normal with variance 1 / fan-in."""
    weight.normal_(0.0, 1.0 / math.sqrt(weight.shape[1]), generator=generator)


def start_from_contexts(
    words: nn.Embedding, corpora: Sequence[ShardSet], deviation: float, generator: torch.Generator
) -> None:
    """Fill a word table [V, E] from the training text; pieces that do not occur stay as drawn.

    A fresh table says nothing about words, so the first thing a training learns is which are alike. Counts say so in
    seconds: pointwise mutual information of pieces that stand near each other, factorised (Levy and Goldberg 2014,
    "Neural Word Embedding as Implicit Matrix Factorization").
    """
    counts = context_counts(corpora, words.num_embeddings)
    vectors, is_known = context_vectors(counts, words.embedding_dim, generator)
    with torch.no_grad():
        words.weight[is_known] = deviation * vectors[is_known]


def context_counts(corpora: Sequence[ShardSet], vocab_size: int) -> Tensor:
    """How often each piece stands before and after each frequent piece, [V, 2 x contexts]."""
    frequencies = np.sum([shards.unigram_counts() for shards in corpora], axis=0)
    contexts = np.argsort(-frequencies, kind="stable")[:MOST_CONTEXTS]
    column = np.full(vocab_size, -1)
    column[contexts] = np.arange(len(contexts))
    counts = np.zeros((vocab_size, 2 * len(contexts)), np.float32)
    after, before = np.split(counts, 2, axis=1)
    for tokens in _excerpts(corpora):
        for distance in range(1, min(WINDOW + 1, len(tokens))):
            earlier, later = tokens[:-distance], tokens[distance:]
            _add(after, earlier, column[later], 1 / distance)
            _add(before, later, column[earlier], 1 / distance)
    return torch.from_numpy(counts)


def context_vectors(counts: Tensor, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Vectors [V, width] of standard deviation 1 and which pieces have one, from [V, contexts].

    The counts are used up: beside a large vocabulary there is no room for another such table. The directions are those
    of the largest singular values, all made equally wide: what few words share would drown in what all do. Lengths are
    halfway to equal.
    """
    shares = counts.sum(0) ** CONTEXT_POWER
    information = counts.div_(counts.sum(1, keepdim=True)).div_(shares / shares.sum()).log_()
    information.nan_to_num_(0.0, 0.0, 0.0).clamp_(min=0.0)
    is_known = information.any(1)
    vectors = torch.zeros(len(information), width)
    if not is_known.any():
        return vectors, is_known
    rank = min(width, *information.shape)
    basis = torch.randn(information.shape[1], rank, generator=generator)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(information.T @ (information @ basis))[0]
    left = torch.linalg.svd(information @ basis, full_matrices=False)[0]
    known = left[is_known]
    known = (known - known.mean(0)) / known.std(0, correction=0).clamp(min=1e-6)
    known /= known.norm(dim=1, keepdim=True).clamp(min=1e-6).sqrt()
    known /= known.std(correction=0).clamp(min=1e-6)
    vectors[is_known] = nn.functional.pad(known, (0, width - rank))
    return vectors, is_known


def _excerpts(corpora: Sequence[ShardSet]) -> Iterator[NDArray[np.int64]]:
    """Runs of tokens from all shards, ``MOST_TOKENS`` in all; documents follow each other."""
    share = min(1.0, MOST_TOKENS / max(1, sum(shards.num_tokens for shards in corpora)))
    for shard in (shard for shards in corpora for shard in shards.shards):
        tokens = shard.tokens[: round(share * shard.num_tokens)]
        for start in range(0, len(tokens), _COUNTED_AT_ONCE):
            yield tokens[start : start + _COUNTED_AT_ONCE].astype(np.int64)


def _add(counts: NDArray[np.float32], rows: NDArray[np.int64], columns: NDArray[np.int64], weight: float) -> None:
    """Add ``weight`` at each pair with a column; a block of rows at a time, to bound the memory."""
    for first in range(0, len(counts), _ROWS_AT_ONCE):
        block = counts[first : first + _ROWS_AT_ONCE]
        is_here = (columns >= 0) & (rows >= first) & (rows < first + len(block))
        keys = (rows[is_here] - first) * block.shape[1] + columns[is_here]
        block += np.float32(weight) * np.bincount(keys, minlength=block.size).reshape(block.shape)
