"""What is in token shards and what the examples drawn from them look like, in numbers and text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from litebert.common.errors import InputError
from litebert.data.batches.example import NO_LABEL, Batch, Bools, ExampleConfig, Ints, Vocabulary
from litebert.data.batches.loader import Loader
from litebert.data.corpus.manifest import Split
from litebert.data.corpus.shards import ShardSet

if TYPE_CHECKING:
    from litebert.text.tokenizer import Tokenizer

OPEN = 1 << 40
"""Upper edge of a bin without an upper end."""
Kind = Literal["plain", "special", "masked", "kept", "random"]

SENTENCE_EDGES = (1, *range(10, 101, 10), OPEN)
DOCUMENT_EDGES = (1, *(1 << power for power in range(5, 16)), OPEN)
LENGTH_BINS = 16
DEFAULT_BATCHES = 400


@dataclass(frozen=True)
class Histogram:
    """Counts of values in [edge, next edge); the last bin may be open.

    Example:
        >>> Histogram.of(np.array([1, 2, 7]), (1, 5, 10))
        Histogram(edges=(1, 5, 10), counts=(2, 1))
    """

    edges: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: Ints, edges: Sequence[int]) -> Histogram:
        """Count values; those outside of the edges are not counted."""
        counts, _ = np.histogram(values, bins=np.array(edges))
        return cls(tuple(edges), tuple(counts.tolist()))

    def __add__(self, other: Histogram) -> Histogram:
        assert self.edges == other.edges, "only histograms with the same bins can be added"
        pairs = zip(self.counts, other.counts, strict=True)
        return Histogram(self.edges, tuple(a + b for a, b in pairs))


@dataclass(frozen=True)
class CorpusStatistics:
    """Counts of one split of the shards."""

    documents: int
    sentences: int
    tokens: int
    vocab_size: int
    pieces_used: int
    """Pieces of the vocabulary that occur."""
    sentence_tokens: Histogram
    document_tokens: Histogram


@dataclass(frozen=True)
class ExampleStatistics:
    """Measured on a number of batches."""

    batches: int
    examples: int
    tokens: int
    """With specials, without padding."""
    mean_length: float
    full_length_share: float
    padding_share: float
    masked_share: float
    """Predicted tokens per token, specials counted."""
    replacement_shares: dict[str, float]
    """What stands at predicted places: mask, kept, random."""
    label_shares: dict[int, float]
    """Share of each sentence label; empty without a sentence task."""
    run_words: dict[int, float]
    """Share of runs of neighbouring predicted tokens by the number of words that begin in them."""
    lengths: Histogram


@dataclass(frozen=True)
class ShownExample:
    """One example as text, cut where the kind of token changes."""

    address: tuple[int, int, int]
    """Epoch, window and index."""
    label: int | None
    parts: tuple[tuple[str, Kind], ...]

    @property
    def text(self) -> str:
        """One line: ``[word]`` is masked, ``[word=]`` kept, ``[word→other]`` replaced."""
        return "".join(text for text, _ in self.parts)


@dataclass(frozen=True)
class Inspection:
    """All that ``litebert inspect`` shows.

    Example:
        >>> inspection = inspect_shards("shards/", ExampleConfig(length=128))
        >>> inspection.examples.masked_share
        0.1501
    """

    folder: Path
    split: Split
    config: ExampleConfig
    corpus: CorpusStatistics
    examples: ExampleStatistics
    shown: tuple[ShownExample, ...] = field(default=())


def inspect_shards(
    folder: Path | str,
    config: ExampleConfig,
    *,
    split: Split = "train",
    num_batches: int = DEFAULT_BATCHES,
    num_shown: int = 3,
    seed: int = 0,
) -> Inspection:
    """Count the shards of a split, draw batches and measure them.

    Args:
        folder: prepared shards.
        config: how examples are drawn.
        split: train or dev.
        num_batches: batches to measure, at most one epoch.
        num_shown: examples to show as text.
        seed: of the examples.
    """
    from litebert.text.tokenizer import Tokenizer

    if num_batches < 1 or num_shown < 0:
        raise InputError(f"{num_batches} batches, {num_shown} examples: ask for 1 and 0 or more")
    loader = Loader.open([folder], config, seed, split=split)
    (corpus,) = loader.corpora
    batches = list(islice(loader.epoch_batches(), num_batches))
    tokenizer = Tokenizer.load(corpus.shards.tokenizer_folder)
    shown = islice(show_examples(batches, tokenizer), num_shown)
    return Inspection(
        folder=Path(folder),
        split=split,
        config=config,
        corpus=corpus_statistics(corpus.shards),
        examples=example_statistics(batches, config, loader.vocabulary),
        shown=tuple(shown),
    )


def corpus_statistics(shards: ShardSet) -> CorpusStatistics:
    """Count documents and sentences by length; one shard's offsets are in memory at a time."""
    sentence_tokens = Histogram.of(np.zeros(0, np.int64), SENTENCE_EDGES)
    document_tokens = Histogram.of(np.zeros(0, np.int64), DOCUMENT_EDGES)
    for shard in shards.shards:
        offsets = shard.sentence_offsets
        sentence_tokens += Histogram.of(np.diff(offsets), SENTENCE_EDGES)
        document_tokens += Histogram.of(np.diff(offsets[shard.document_offsets]), DOCUMENT_EDGES)
    return CorpusStatistics(
        documents=shards.num_documents,
        sentences=shards.num_sentences,
        tokens=shards.num_tokens,
        vocab_size=shards.vocab_size,
        pieces_used=int((shards.unigram_counts() > 0).sum()),
        sentence_tokens=sentence_tokens,
        document_tokens=document_tokens,
    )


def example_statistics(
    batches: Sequence[Batch], config: ExampleConfig, vocabulary: Vocabulary
) -> ExampleStatistics:
    """Measure lengths, padding, masks and labels of at least one batch."""
    lengths = np.concatenate([batch.lengths for batch in batches])
    labels = np.concatenate([batch.sentence_labels for batch in batches])
    places = sum(batch.input_ids.size for batch in batches)
    kinds: Counter[Kind] = Counter()
    runs: Counter[int] = Counter()
    for batch in batches:
        kinds.update(kinds_of_masks(batch, vocabulary.mask_id))
        runs.update(words_of_runs(batch, vocabulary.word_starts).tolist())
    num_masked, num_runs = kinds.total(), runs.total()
    edges = np.unique(np.linspace(0, config.length, LENGTH_BINS + 1).astype(int) + 1)
    return ExampleStatistics(
        batches=len(batches),
        examples=len(lengths),
        tokens=int(lengths.sum()),
        mean_length=float(lengths.mean()),
        full_length_share=float((lengths == config.length).mean()),
        padding_share=1 - float(lengths.sum()) / places,
        masked_share=num_masked / float(lengths.sum()),
        replacement_shares={k: kinds[k] / num_masked for k in ("masked", "kept", "random")},
        label_shares={
            int(label): float((labels == label).mean())
            for label in np.unique(labels)
            if label != NO_LABEL
        },
        run_words={words: runs[words] / num_runs for words in sorted(runs)},
        lengths=Histogram.of(lengths, edges.tolist()),
    )


def kinds_of_masks(batch: Batch, mask_id: int) -> list[Kind]:
    """What stands at each predicted place of a batch: masked, kept or random.

    A random piece that is the original one counts as kept.
    """
    seen = batch.input_ids.reshape(-1)[batch.masked_positions]
    kept = np.where(seen == batch.masked_labels, "kept", "random")
    kinds: list[Kind] = np.where(seen == mask_id, "masked", kept).tolist()
    return kinds


def words_of_runs(batch: Batch, word_starts: Bools) -> Ints:
    """Words that begin in each run of neighbouring predicted tokens, int64 [num_runs]."""
    begins_run = np.diff(batch.masked_positions, prepend=-2) > 1
    run = np.cumsum(begins_run) - 1
    starts = word_starts[batch.masked_labels]
    return np.bincount(run[starts], minlength=int(begins_run.sum()))


def show_examples(batches: Sequence[Batch], tokenizer: Tokenizer) -> Iterator[ShownExample]:
    """Yield the first example of each batch, then the second ones, as text with masks marked."""
    kinds_of_batch = [kinds_of_masks(batch, tokenizer.mask_id) for batch in batches]
    for row in range(max(len(batch.lengths) for batch in batches)):
        for batch, kinds in zip(batches, kinds_of_batch, strict=True):
            if row < len(batch.lengths):
                yield _show_example(batch, kinds, row, tokenizer)


def _show_example(batch: Batch, kinds: list[Kind], row: int, tokenizer: Tokenizer) -> ShownExample:
    size = batch.input_ids.shape[1]
    first, last = np.searchsorted(batch.masked_positions, [row * size, (row + 1) * size])
    masks = {
        int(batch.masked_positions[i]) - row * size: (int(batch.masked_labels[i]), kinds[i])
        for i in range(first, last)
    }
    parts: list[tuple[str, Kind]] = []
    for place, seen in enumerate(batch.input_ids[row, : batch.lengths[row]].tolist()):
        original, kind = masks.get(place, (seen, "plain"))
        special = kind == "plain" and seen in (tokenizer.cls_id, tokenizer.sep_id)
        parts.append(_show_token(original, seen, "special" if special else kind, tokenizer))
    label = int(batch.sentence_labels[row])
    epoch, window, index = batch.addresses[row].tolist()
    return ShownExample(
        (epoch, window, index), None if label == NO_LABEL else label, _joined(parts)
    )


def _show_token(original: int, seen: int, kind: Kind, tokenizer: Tokenizer) -> tuple[str, Kind]:
    piece = tokenizer.id_to_piece(original)
    word = piece.lstrip("▁")
    space = " " if piece != word or kind == "special" else ""
    if kind in ("plain", "special"):
        return space + word, kind
    other = tokenizer.id_to_piece(seen).lstrip("▁") or "▁"
    mark = {"masked": "", "kept": "=", "random": f"→{other}"}[kind]
    return f"{space}[{word or '▁'}{mark}]", kind


def _joined(parts: list[tuple[str, Kind]]) -> tuple[tuple[str, Kind], ...]:
    """Join neighbours of one kind; spaces stand around specials only inside the example."""
    joined: list[tuple[str, Kind]] = []
    for text, kind in parts:
        after_special = bool(joined) and joined[-1][1] == "special"
        if after_special:
            text = " " + text.lstrip()
        if joined and joined[-1][1] == kind:
            joined[-1] = (joined[-1][0] + text, kind)
        else:
            joined.append((text if joined else text.lstrip(), kind))
    return tuple(joined)
