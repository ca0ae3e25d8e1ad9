"""The loader: an endless row of batches, each a pure function of the seed and its position; workers prepare ahead."""

from __future__ import annotations

import copy
import multiprocessing
import os
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import numpy as np

from litebert.common.errors import ConfigError, DataError, LitebertError
from litebert.common.rng import rng
from litebert.common.signals import interrupts_held
from litebert.data.batches.example import Batch, ExampleConfig, Ints, Vocabulary
from litebert.data.batches.masks import draw_masks, ranges
from litebert.data.batches.order import Corpus
from litebert.data.corpus.manifest import Split
from litebert.data.corpus.shards import ShardSet, tokenizer_of

MIXTURE_PERIOD = 1000  # Positions after which corpora have had their exact shares of the batches.


class Loader:
    """Draws batches from one corpus, or from several by weight.

    The position of a batch is one integer and the only state: ranks, workers and resumed runs that ask for the same
    position get the same batch. A batch has about ``micro_batch_size * length`` tokens, so every step costs the same;
    how many examples that is depends on their length. Several corpora are mixed batch by batch: a batch holds examples
    of one of them. Each stage of a curriculum has a loader and an order of its own, from position 0 on.
    """

    def __init__(
        self,
        sources: Sequence[tuple[ShardSet, float]],
        config: ExampleConfig,
        seed: int,
        vocabulary: Vocabulary,
        stage: int = 0,
    ) -> None:
        if len(sources) > MIXTURE_PERIOD:
            raise ConfigError(f"{len(sources):,} corpora are too many to mix; join them to {MIXTURE_PERIOD:,}")
        for shards, weight in sources:
            if not weight > 0:
                raise ConfigError(f"weight {weight} of {shards.folder} must be above 0")
        self.config, self.vocabulary, self.seed, self.stage = config, vocabulary, seed, stage
        self.corpora = tuple(Corpus(shards, config, seed, stage, number) for number, (shards, _) in enumerate(sources))
        self._shares = _shares([weight for _, weight in sources])
        self._pattern: tuple[int, Ints, Ints] | None = None

    @classmethod
    def open(cls, folders: Sequence[Path | str], config: ExampleConfig, seed: int, split: Split = "train") -> Loader:
        """Open prepared folders of one tokenizer; each counts by its tokens."""
        sources = [ShardSet.open(folder, split) for folder in folders]
        weighted = [(shards, max(1, shards.num_tokens)) for shards in sources]
        return cls(weighted, config, seed, Vocabulary.of(tokenizer_of(sources), config.mask.words))

    def with_mask_rate(self, rate: float) -> Loader:
        """A loader of the same examples in the same order, masked at another rate."""
        sibling = copy.copy(self)
        sibling.config = replace(self.config, mask=replace(self.config.mask, rate=rate))
        return sibling

    def batch(self, position: int) -> Batch:
        """The batch at a position: always the same one."""
        if len(self.corpora) == 1:
            return self._assemble(0, position, position)
        period, rest = divmod(position, MIXTURE_PERIOD)
        order, earlier = self._mixture(period)
        source = int(order[rest])
        own_position = period * int(self._shares[source]) + int(earlier[rest])
        return self._assemble(source, own_position, position)

    def iterate(self, start: int = 0, *, stride: int = 1, num_workers: int = 0) -> Iterator[Batch]:
        """Yield the batches at ``start``, ``start + stride``, ...; closing it stops the workers."""
        if num_workers:
            return _iterate_with_workers(self, start, stride, num_workers)
        return (self.batch(position) for position in count(start, stride))

    def epoch_batches(self, epoch: int = 0, source: int = 0) -> Iterator[Batch]:
        """Yield every batch of one pass over a corpus; positions count within it."""
        num_batches = self.corpora[source].num_batches
        for position in range(epoch * num_batches, (epoch + 1) * num_batches):
            yield self._assemble(source, position, position)

    def epochs_at(self, position: int) -> tuple[float, ...]:
        """Passes over each corpus that the batches before a position make."""
        period, rest = divmod(position, MIXTURE_PERIOD)
        order, _ = self._mixture(period)
        drawn = period * self._shares + np.bincount(order[:rest], minlength=len(self.corpora))
        return tuple((drawn / np.array([corpus.num_batches for corpus in self.corpora])).tolist())

    def _mixture(self, period: int) -> tuple[Ints, Ints]:
        """Corpus of each position of a period, and how often it came before in the period."""
        if self._pattern is None or self._pattern[0] != period:
            generator = rng(self.seed, "mixture", self.stage, period)
            order = generator.permutation(np.repeat(np.arange(len(self._shares)), self._shares))
            earlier = np.zeros_like(order)
            for source, share in enumerate(self._shares):
                earlier[order == source] = np.arange(share)
            self._pattern = (period, order, earlier)
        return self._pattern[1:]

    def _assemble(self, source: int, own_position: int, position: int) -> Batch:
        corpus = self.corpora[source]
        epoch, number, batch = corpus.locate(own_position)
        buffer = corpus.buffer(epoch, number)
        first, last = buffer.bounds[batch]
        examples = buffer.order[first:last]
        segment_lengths = buffer.pairs.lengths[examples]
        indices = ranges(buffer.pairs.starts[examples].reshape(-1), segment_lengths.reshape(-1))
        content = buffer.tokens[indices].astype(np.int64)
        if content.max() >= self.vocabulary.size:
            problem = f"token {content.max()} but its vocabulary has {self.vocabulary.size} pieces: a shard is damaged"
            raise DataError(f"{corpus.shards.folder} holds {problem}; run `litebert prepare` again")
        masked, replacements = draw_masks(
            content,
            segment_lengths,
            self.config.num_specials,
            self.config.mask,
            self.vocabulary,
            rng(self.seed, "masks", self.stage, source, epoch, number, batch),
            cross_border=self.config.rules == "official",
        )
        labels = content[masked]
        content[masked] = replacements
        input_ids, token_type_ids, places = self._lay_out(content, segment_lengths)
        return Batch(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            lengths=segment_lengths.sum(axis=1) + self.config.num_specials,
            masked_positions=places[masked],
            masked_labels=labels,
            sentence_labels=buffer.pairs.labels[examples],
            addresses=np.stack(np.broadcast_arrays(epoch, number, examples), axis=1),
            position=position,
            source=source,
            first_position=self._first_position(input_ids.shape[1], position),
        )

    def _first_position(self, length: int, position: int) -> int:
        """0 for every second batch, for the others anywhere that leaves room for its length."""
        last = self.config.positions - length
        if last <= 0:
            return 0
        generator = rng(self.seed, "positions", self.stage, position)
        return int(generator.integers(0, last + 1)) if generator.random() < 0.5 else 0

    def _lay_out(self, content: Ints, segment_lengths: Ints) -> tuple[Ints, Ints, Ints]:
        """Add specials and pad: ids [B, S], token types [B, S], flat place of each token [T]."""
        num_specials = self.config.num_specials
        lengths = segment_lengths.sum(axis=1) + num_specials
        size = int(lengths.max())
        row = np.arange(len(lengths)) * size
        # A begins after [CLS], B after A and its [SEP].
        first = np.stack([row + 1, row + 2 + segment_lengths[:, 0]], axis=1)
        places = ranges(first.reshape(-1), segment_lengths.reshape(-1))
        input_ids = np.full(len(lengths) * size, self.vocabulary.pad_id, dtype=np.int64)
        input_ids[row] = self.vocabulary.cls_id
        input_ids[first[:, 1] - 1] = self.vocabulary.sep_id
        input_ids[row + lengths - 1] = self.vocabulary.sep_id
        input_ids[places] = content
        token_type_ids = np.zeros_like(input_ids)
        if num_specials == 3:
            token_type_ids[ranges(first[:, 1], segment_lengths[:, 1] + 1)] = 1
        shape = (len(lengths), size)
        return input_ids.reshape(shape), token_type_ids.reshape(shape), places


def _shares(weights: Sequence[float]) -> Ints:
    """Batches of each corpus in a period, int64 [num_sources]: largest remainders, none without."""
    exact = np.array(weights) / sum(weights) * MIXTURE_PERIOD
    shares = np.maximum(1, np.floor(exact).astype(np.int64))
    while (missing := MIXTURE_PERIOD - int(shares.sum())) != 0:
        step = 1 if missing > 0 else -1
        gain = step * (exact - shares)
        if step < 0:
            gain[shares == 1] = -np.inf
        shares[np.argmax(gain)] += step
    return shares


def _iterate_with_workers(loader: Loader, start: int, stride: int, num_workers: int) -> Iterator[Batch]:
    """Let each worker make every n-th batch.

    It waits with a batch until its pipe is read, so memory is bounded; it ends when the pipe breaks with this process.
    """
    # Spawned, not forked: the parent may have threads (torch), and no worker holds another's pipe.
    context = multiprocessing.get_context("spawn")
    workers: list[tuple[SpawnProcess, Connection]] = []
    try:
        for worker in range(num_workers):
            receiver, sender = context.Pipe(duplex=False)
            args = (loader, sender, start + worker * stride, num_workers * stride)
            process = context.Process(target=_work, args=args, daemon=True, name=f"litebert-loader-{worker}")
            with interrupts_held():
                process.start()
            sender.close()
            workers.append((process, receiver))
        while True:
            for process, connection in workers:
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    process.join()
                    ended = f"loader worker {process.name} ended with exit code {process.exitcode}"
                    raise DataError(f"{ended}; free memory or use fewer workers") from None
                if isinstance(message, Exception):
                    raise message
                yield message
    finally:
        for _, connection in workers:
            connection.close()
        for process, _ in workers:
            process.terminate()
            process.join()


def _work(loader: Loader, sender: Connection, start: int, stride: int) -> None:
    # Signals to the whole process group (Ctrl-C, a launcher that stops) are for the parent alone.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent_is_gone = (BrokenPipeError, ConnectionResetError)
    with suppress(*parent_is_gone):
        try:
            for batch in loader.iterate(start, stride=stride):
                sender.send(batch)
        except parent_is_gone:
            raise
        except LitebertError as error:
            sender.send(error)
        except Exception:  # any other failure is a bug: show where, in the parent
            sender.send(RuntimeError(f"a loader worker failed:\n{traceback.format_exc()}"))
