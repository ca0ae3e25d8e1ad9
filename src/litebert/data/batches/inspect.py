"""What is in token shards and what examples drawn from them look like: numbers, text, a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal, cast

import numpy as np

from litebert.common.config import MOST
from litebert.common.errors import InputError
from litebert.common.files import atomic_path
from litebert.data.batches.example import Batch, ExampleConfig, Ints, Vocabulary, word_rule
from litebert.data.batches.loader import Loader
from litebert.data.batches.masks import ngram_probabilities
from litebert.data.corpus.manifest import Split
from litebert.data.corpus.shards import ShardSet
from litebert.model.config import IGNORED_LABEL
from litebert.text.tokenizer import Tokenizer
from litebert.text.words import Borders, WordRule, begins_words

Kind = Literal["plain", "special", "masked", "kept", "random"]

OPEN = 1 << 40  # Upper edge of a bin without an upper end.
LENGTH_BINS, PLOTTED_WORDS, SHOWN_WORDS = 16, 8, 24
COLORS = ("#4878a8", "#d08c3c")


@dataclass(frozen=True)
class Histogram:
    """Counts of values in [edge, next edge); the last bin may be open.

    >>> Histogram((1, 5, OPEN), (3, 4)).names
    ['1-4', '5+']
    """

    edges: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, arrays: Iterable[Ints], edges: Sequence[int]) -> Histogram:
        """Count the values of some arrays; those outside of the edges are not counted."""
        counts = np.zeros(len(edges) - 1, np.int64)
        for values in arrays:
            counts += np.histogram(values, bins=np.array(edges))[0]
        return cls(tuple(edges), tuple(counts.tolist()))

    @property
    def names(self) -> list[str]:
        """Short names of the bins."""
        names = []
        for first, after in pairwise(self.edges):
            last = f"-{after - 1}" if after - 1 > first else ""
            names.append(f"{first}+" if after >= OPEN else f"{first}{last}")
        return names

    @property
    def shares(self) -> dict[str, float]:
        """Share of each bin by its name."""
        total = max(1, sum(self.counts))
        return {n: count / total for n, count in zip(self.names, self.counts, strict=True)}


@dataclass(frozen=True)
class CorpusStatistics:
    """Counts of one split of the shards."""

    documents: int
    sentences: int
    tokens: int
    vocab_size: int
    pieces_used: int  # entries of the vocabulary that occur
    sentence_tokens: Histogram
    document_tokens: Histogram


@dataclass(frozen=True)
class ExampleStatistics:
    """Measured on a number of batches."""

    batches: int
    examples: int
    tokens: int  # with specials, without padding
    mean_length: float
    full_length_share: float
    padding_share: float
    masked_share: float  # predicted tokens per token, specials counted
    replacement_shares: dict[str, float]  # what stands at predicted places: mask, kept, random
    label_shares: dict[int, float]  # share of each sentence label; empty without a sentence task
    run_words: dict[int, float]  # share of runs of neighbouring predicted tokens by the words that begin in them
    lengths: Histogram


@dataclass(frozen=True)
class ShownExample:
    """One example as text, cut where the kind of token changes."""

    address: tuple[int, int, int]  # epoch, buffer and index
    label: int | None
    spans: tuple[tuple[str, Kind], ...]
    words: tuple[str, ...]  # the first words of it, as they are masked whole

    @property
    def text(self) -> str:
        """One line: ``[word]`` is masked, ``[word=]`` kept, ``[word→other]`` replaced."""
        return "".join(text for text, _ in self.spans)


@dataclass(frozen=True)
class Inspection:
    """All that ``litebert inspect`` shows."""

    folder: Path
    split: Split
    config: ExampleConfig
    tokenizer: str  # what the tokenizer is and does
    word_rule: WordRule  # how pieces make words
    corpus: CorpusStatistics
    examples: ExampleStatistics
    shown: tuple[ShownExample, ...] = ()


def inspect_shards(
    folder: Path | str,
    config: ExampleConfig,
    *,
    split: Split = "train",
    num_batches: int = 400,
    num_shown: int = 3,
    seed: int = 0,
) -> Inspection:
    """Count the shards of a split, draw batches (at most one epoch) and measure them."""
    if not (1 <= num_batches <= MOST and 0 <= num_shown <= MOST):
        raise InputError(f"{num_batches} batches, {num_shown} to show: ask for 1 and 0 or more")
    loader = Loader.open([folder], config, seed, split=split)
    shards = loader.corpora[0].shards
    batches = list(islice(loader.epoch_batches(), num_batches))
    tokenizer = Tokenizer.load(shards.tokenizer_folder)
    return Inspection(
        folder=Path(folder),
        split=split,
        config=config,
        tokenizer=tokenizer.description,
        word_rule=word_rule(tokenizer, config.mask.words),
        corpus=corpus_statistics(shards),
        examples=example_statistics(batches, config, loader.vocabulary),
        shown=tuple(islice(show_examples(batches, tokenizer, loader.vocabulary), num_shown)),
    )


def corpus_statistics(shards: ShardSet) -> CorpusStatistics:
    """Count documents and sentences by length; one shard's offsets are in memory at a time."""
    sentences = (np.diff(shard.sentence_offsets) for shard in shards.shards)
    documents = (np.diff(shard.sentence_offsets[shard.document_offsets]) for shard in shards.shards)
    return CorpusStatistics(
        documents=shards.num_documents,
        sentences=shards.num_sentences,
        tokens=shards.num_tokens,
        vocab_size=shards.vocab_size,
        pieces_used=int((shards.unigram_counts() > 0).sum()),
        sentence_tokens=Histogram.of(sentences, (1, *range(10, 101, 10), OPEN)),
        document_tokens=Histogram.of(documents, (1, *(1 << n for n in range(5, 16)), OPEN)),
    )


def example_statistics(batches: Sequence[Batch], config: ExampleConfig, vocabulary: Vocabulary) -> ExampleStatistics:
    """Measure lengths, padding, masks and labels of at least one batch."""
    lengths = np.concatenate([batch.lengths for batch in batches])
    labels = np.concatenate([batch.sentence_labels for batch in batches])
    places = sum(batch.input_ids.size for batch in batches)
    kinds, runs = Counter[Kind](), Counter[int]()
    for batch in batches:
        kinds.update(kinds_of_masks(batch, vocabulary.mask_id))
        runs.update(words_of_runs(batch, vocabulary.word_starts).tolist())
    num_masked, num_runs = kinds.total(), runs.total()
    edges = np.unique(np.linspace(0, config.length, LENGTH_BINS + 1).astype(int) + 1)
    known_labels = np.unique(labels[labels != IGNORED_LABEL]).tolist()
    return ExampleStatistics(
        batches=len(batches),
        examples=len(lengths),
        tokens=int(lengths.sum()),
        mean_length=float(lengths.mean()),
        full_length_share=float((lengths == config.length).mean()),
        padding_share=1 - float(lengths.sum()) / places,
        masked_share=num_masked / float(lengths.sum()),
        replacement_shares={k: kinds[k] / num_masked for k in ("masked", "kept", "random")},
        label_shares={label: float((labels == label).mean()) for label in known_labels},
        run_words={words: runs[words] / num_runs for words in sorted(runs)},
        lengths=Histogram.of([lengths], edges.tolist()),
    )


def kinds_of_masks(batch: Batch, mask_id: int) -> list[Kind]:
    """What stands at each predicted place: masked, kept (also if drawn at random) or random."""
    seen = batch.input_ids.reshape(-1)[batch.masked_positions]
    kept = np.where(seen == batch.masked_labels, "kept", "random")
    return cast(list[Kind], np.where(seen == mask_id, "masked", kept).tolist())


def words_of_runs(batch: Batch, word_starts: Borders) -> Ints:
    """Words that begin in each run of neighbouring predicted tokens, int64 [num_runs]."""
    begins_run = np.diff(batch.masked_positions, prepend=-2) > 1
    run = np.cumsum(begins_run) - 1
    starts = begins_words(word_starts, batch.originals().reshape(-1))[batch.masked_positions]
    return np.bincount(run[starts], minlength=int(begins_run.sum()))


def show_examples(batches: Sequence[Batch], tokenizer: Tokenizer, vocabulary: Vocabulary) -> Iterator[ShownExample]:
    """Yield the first example of each batch, then the second ones, as text with masks marked."""
    for row in range(max(len(batch.lengths) for batch in batches)):
        for batch in batches:
            if row < len(batch.lengths):
                ids = batch.originals()[row, : batch.lengths[row]]
                words = tuple(islice(words_of(ids, tokenizer, vocabulary), SHOWN_WORDS))
                address, label = batch.addresses[row].tolist(), int(batch.sentence_labels[row])
                shown_label, spans = None if label == IGNORED_LABEL else label, tuple(_spans(batch, row, tokenizer))
                yield ShownExample(tuple(address), shown_label, spans, words)


def words_of(ids: Ints, tokenizer: Tokenizer, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the words that some pieces in a row make, specials left out."""
    word, begins = "", begins_words(vocabulary.word_starts, ids).tolist()
    for piece_id, starts in zip(ids.tolist(), begins, strict=True):
        if word and starts:
            yield word
            word = ""
        if piece_id not in (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id):
            word += tokenizer.spell(piece_id)[1]
    if word:
        yield word


def _spans(batch: Batch, row: int, tokenizer: Tokenizer) -> list[tuple[str, Kind]]:
    places = batch.masked_positions - row * batch.input_ids.shape[1]
    marks = zip(batch.masked_labels.tolist(), kinds_of_masks(batch, tokenizer.mask_id), strict=True)
    masks = dict(zip(places.tolist(), marks, strict=True))  # those of other rows lie outside
    spans: list[tuple[str, Kind]] = []
    for place, seen in enumerate(batch.input_ids[row, : batch.lengths[row]].tolist()):
        original, kind = masks.get(place, (seen, "plain"))
        if kind == "plain" and seen in (tokenizer.cls_id, tokenizer.sep_id):
            kind = "special"
        marked, word = tokenizer.spell(original)
        if kind not in ("plain", "special"):
            mark = {"masked": "", "kept": "=", "random": f"→{tokenizer.spell(seen)[1] or '▁'}"}[kind]
            word = f"[{word or '▁'}{mark}]"
        text = f" {word}" if marked or kind == "special" else word
        if spans and spans[-1][1] == "special":  # spaces stand around specials
            text = " " + text.lstrip()
        if spans and spans[-1][1] == kind:
            spans[-1] = (spans[-1][0] + text, kind)
        else:
            spans.append((text if spans else text.lstrip(), kind))
    return spans


def plot_inspection(inspection: Inspection, path: Path) -> None:
    """Draw an inspection into an image file; the suffix says which kind."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 8), layout="constrained")
    axes, corpus, examples = figure.subplots(2, 3), inspection.corpus, inspection.examples
    max_ngram = inspection.config.mask.max_ngram
    for axis, title, histogram in (
        (axes[0, 0], "Sentences by tokens", corpus.sentence_tokens),
        (axes[0, 1], "Documents by tokens", corpus.document_tokens),
        (axes[0, 2], "Examples by length", examples.lengths),
    ):
        axis.bar(histogram.names, histogram.counts, color=COLORS[0])
        axis.tick_params("x", rotation=60, labelsize=8)
        axis.set_title(title)
        axis.yaxis.set_major_formatter("{x:,.0f}")
    # Runs found beside the law that spans are drawn from; neighbouring spans make longer runs.
    runs, axis, law = examples.run_words, axes[1, 0], ngram_probabilities(max_ngram).tolist()
    words = range(min(runs, default=1), min(PLOTTED_WORDS, max(runs, default=1)) + 1)
    axis.bar([w - 0.2 for w in words], [runs.get(w, 0) for w in words], 0.4, color=COLORS[0])
    axis.bar([n + 1.2 for n in range(max_ngram)], law, 0.4, color=COLORS[1])
    axis.legend(["runs found", "drawn: p(n) ~ 1/n"])
    axis.set_xticks(words)
    axis.set_title("Masked runs by words")
    labels = {("in order", "negative")[k]: v for k, v in examples.label_shares.items()}
    for axis, title, shares in (
        (axes[1, 1], "At predicted places", examples.replacement_shares),
        (axes[1, 2], "Sentence labels", labels or {"no sentence task": 1.0}),
    ):
        bars = axis.bar(list(shares), list(shares.values()), color=COLORS[0], width=0.6)
        axis.bar_label(bars, [f"{share:.1%}" for share in shares.values()])
        axis.set_ylim(0, 1.1 * max(shares.values()))
        axis.set_title(title)
    for axis in axes[1]:
        axis.yaxis.set_major_formatter("{x:.0%}")
    figure.suptitle(
        f"{inspection.folder} ({inspection.split}): {corpus.documents:,} documents, "
        f"{corpus.tokens:,} tokens; {examples.examples:,} examples drawn, "
        f"{examples.masked_share:.1%} predicted, {examples.padding_share:.2%} padding"
    )
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip("."), dpi=110)
