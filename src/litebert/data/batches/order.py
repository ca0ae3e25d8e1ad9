"""The order of one corpus: stretches permuted per epoch, buffers of stretches, batches in a buffer.

An epoch has a fixed number of batches, and so has every stretch: its share of them by tokens. The examples of a buffer
are dealt to exactly the batches its stretches stand for, of nearly equal tokens. So a batch number leads to epoch,
buffer and batch by arithmetic, nothing has to be replayed to go on anywhere, and every chunk of the corpus is in
exactly one batch of an epoch.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from litebert.common.errors import DataError
from litebert.common.rng import rng
from litebert.data.batches.example import ExampleConfig, Ints
from litebert.data.batches.pairs import Pairs, form_pairs
from litebert.data.corpus.shards import Documents, Shard, ShardSet, Tokens, offsets_of

# The batches of a buffer differ from the wanted size as the buffer's mixture of documents differs from the sample's;
# aiming a little lower keeps most of them at or below it.
AIMED_FILL = 0.97
SAMPLED_STRETCHES = 16
MIN_BATCHES_PER_STRETCH = 4
BUFFERS_KEPT = 2


@dataclass(frozen=True)
class Buffer:
    """Some stretches in memory with their examples and batches."""

    tokens: Tokens  # uint16 or uint32 [T]: the stretches' tokens, one stretch after the other
    pairs: Pairs  # the examples, as ranges of ``tokens``
    order: Ints  # int64 [n]: example numbers by ascending length, equal lengths shuffled
    bounds: Ints  # int64 [num_batches, 2]: range of ``order`` of each batch; the batches are shuffled


class _Stretch(NamedTuple):
    shard: Shard
    first_document: int
    last_document: int
    num_tokens: int


class Corpus:
    """One source of documents as an endless, addressable row of batches."""

    def __init__(self, shards: ShardSet, config: ExampleConfig, seed: int, stage: int = 0, source: int = 0) -> None:
        if not shards.num_tokens:
            raise DataError(f"{shards.folder} has no {shards.split} documents; prepare it with more text")
        if config.task in ("nsp", "both") and shards.num_documents < 2:
            needed = f"but task {config.task} needs another one for its negatives; use task sop"
            raise DataError(f"{shards.folder} has one {shards.split} document, {needed}")
        self.shards, self._config, self._seed, self._address = shards, config, seed, (stage, source)
        self._stretches = _cut_stretches(shards, config)
        self._quotas = self._batches_of_stretches()
        num_buffers = max(1, len(self._stretches) // config.buffer_stretches)
        self._buffer_bounds = np.arange(num_buffers + 1) * len(self._stretches) // num_buffers
        self._buffers: dict[tuple[int, int], Buffer] = {}
        self._orders: dict[int, tuple[Ints, Ints]] = {}

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_buffers": {}}  # a worker process reads its own

    @property
    def num_batches(self) -> int:
        """Batches of an epoch, the same in every epoch."""
        return int(self._quotas.sum())

    def locate(self, position: int) -> tuple[int, int, int]:
        """Epoch, buffer and batch of a position, without reading anything."""
        epoch, rest = divmod(position, self.num_batches)
        _, ends = self._epoch_order(epoch)
        buffer = int(np.searchsorted(ends, rest, side="right"))
        return epoch, buffer, rest - (int(ends[buffer - 1]) if buffer else 0)

    def buffer(self, epoch: int, number: int) -> Buffer:
        """Load a buffer and form its examples; the last ones are kept."""
        key = (epoch, number)
        if key not in self._buffers:
            while len(self._buffers) >= BUFFERS_KEPT:
                del self._buffers[next(iter(self._buffers))]
            self._buffers[key] = self._build_buffer(epoch, number)
        return self._buffers[key]

    def _epoch_order(self, epoch: int) -> tuple[Ints, Ints]:
        """Permutation of the stretches and the number of batches up to the end of each buffer."""
        if epoch not in self._orders:
            # The address keeps its old name: another would be another order.
            permutation = rng(self._seed, "blocks", *self._address, epoch).permutation(len(self._stretches))
            batches = np.cumsum(self._quotas[permutation])
            self._orders = {epoch: (permutation, batches[self._buffer_bounds[1:] - 1])}
        return self._orders[epoch]

    def _build_buffer(self, epoch: int, number: int) -> Buffer:
        permutation, _ = self._epoch_order(epoch)
        chosen = permutation[self._buffer_bounds[number] : self._buffer_bounds[number + 1]]
        generator = rng(self._seed, "pairs", *self._address, epoch, number)
        tokens, pairs = self._form_pairs(chosen, generator)
        if not len(pairs):
            document = self._stretches[chosen[0]].first_document
            where = f"{self.shards.folder}: {len(tokens)} tokens around document {document}"
            raise DataError(f"{where} make no pair; the text is too short")
        lengths = pairs.lengths.sum(axis=1) + self._config.num_specials
        shuffled = generator.permutation(len(pairs))
        order = shuffled[np.argsort(lengths[shuffled], kind="stable")]
        bounds = deal(lengths[order], int(self._quotas[chosen].sum()))
        return Buffer(tokens, pairs, order, generator.permutation(bounds))

    def _form_pairs(self, chosen: Ints, generator: np.random.Generator) -> tuple[Tokens, Pairs]:
        """Read stretches, one after the other; returns their tokens and examples."""
        stretches, found = [self._stretches[i] for i in chosen], list[Documents]()
        for shard in dict.fromkeys(stretch.shard for stretch in stretches):
            mapped, sentences, documents = shard.read()
            for stretch in stretches:
                if stretch.shard == shard:
                    bounds = documents[stretch.first_document : stretch.last_document + 1]
                    offsets = sentences[bounds[0] : bounds[-1] + 1]
                    tokens = mapped[offsets[0] : offsets[-1]]
                    found.append(Documents(tokens, np.diff(offsets), np.diff(bounds)))
        tokens, sentences, documents = Documents.join(found)
        return tokens, form_pairs(offsets_of(sentences), offsets_of(documents), self._config, generator)

    def _batches_of_stretches(self) -> Ints:
        """How many batches each stretch stands for, int64 [num_stretches], at least one.

        Tokens of examples per token of text depend on task, rules and documents (specials, truncation, sentences used
        twice in NSP), so they are measured on a sample of stretches.
        """
        spread = np.linspace(0, len(self._stretches) - 1, SAMPLED_STRETCHES)
        generator = rng(self._seed, "quotas", *self._address)
        tokens, pairs = self._form_pairs(np.unique(spread.astype(np.int64)), generator)
        cost = pairs.lengths.sum() + self._config.num_specials * len(pairs)
        batches_per_token = cost / len(tokens) / (self._config.batch_tokens * AIMED_FILL)
        stretch_tokens = np.array([stretch.num_tokens for stretch in self._stretches])
        # Rounding the running sum keeps the rounding errors from adding up over the stretches.
        ends = np.rint(np.cumsum(stretch_tokens) * batches_per_token).astype(np.int64)
        return np.asarray(np.maximum(1, np.diff(ends, prepend=0)))


def deal(lengths: Ints, num_batches: int) -> Ints:
    """Cut ascending lengths into batches: int64 [num_batches, 2] ranges, none empty.

    The largest batch, padding counted, is as small as can be. Of fewer examples than batches some come again.

    >>> deal(np.array([2, 2, 4, 8, 8]), 3)
    array([[0, 3],
           [3, 4],
           [4, 5]])
    """
    if num_batches >= len(lengths):
        example = np.arange(num_batches) % len(lengths)
        return np.stack([example, example + 1], axis=1)
    ascending = lengths.tolist()
    too_small, enough = 0, ascending[-1] * len(ascending)
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        if len(_fill(ascending, middle, num_batches + 1)) - 1 > num_batches:
            too_small = middle
        else:
            enough = middle
    edges = _fill(ascending, enough, num_batches)
    # Sizes come in steps, so some batches may be missing: halve those with the most examples.
    heap = [(first - last, first, last) for last, first in pairwise(edges)]
    heapq.heapify(heap)
    while len(heap) < num_batches:
        _, first, last = heap[0]
        middle = (first + last) // 2
        heapq.heapreplace(heap, (first - middle, first, middle))
        heapq.heappush(heap, (middle - last, middle, last))
    return np.array(sorted((first, last) for _, first, last in heap))


def _fill(ascending: list[int], batch_tokens: int, most: int) -> list[int]:
    """Fill batches from the longest example down; their edges, at most ``most`` batches."""
    edges = [len(ascending)]
    while edges[-1] > 0 and len(edges) <= most:
        edges.append(max(0, edges[-1] - max(1, batch_tokens // ascending[edges[-1] - 1])))
    return edges


def _cut_stretches(shards: ShardSet, config: ExampleConfig) -> list[_Stretch]:
    """Cut every shard into stretches of whole documents with nearly equal numbers of tokens."""
    wanted = max(config.stretch_tokens, MIN_BATCHES_PER_STRETCH * config.batch_tokens)
    stretches = []
    for shard in shards.shards:
        _, sentences, documents = shard.read()
        document_ends = sentences[documents]
        num_stretches = max(1, round(shard.num_tokens / wanted))
        targets = np.arange(num_stretches + 1) * shard.num_tokens // num_stretches
        edges = np.unique(np.searchsorted(document_ends, targets))
        for first, last in pairwise(edges.tolist()):
            stretches.append(_Stretch(shard, first, last, int(document_ends[last] - document_ends[first])))
    return stretches
