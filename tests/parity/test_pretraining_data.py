"""Official rules give the statistics of the official ``create_pretraining_data``.

Reference: three passes over 124 documents. How many examples a document makes varies a lot from
pass to pass, so each figure is compared with a bootstrap interval over documents: of the counts of
many passes of ours, 124 documents are drawn with replacement, and three passes for each of them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from litebert.data.batches.example import Batch, ExampleConfig, MaskConfig
from litebert.data.batches.inspect import kinds_of_masks, words_of_runs
from litebert.data.batches.loader import Loader
from litebert.data.corpus.shards import ShardSet
from litebert.text.tokenizer import Tokenizer
from small_shards import write_documents

NUM_PASSES = 20
REFERENCE_PASSES = 3
NUM_RESAMPLES = 2000
COVERAGE = 0.99
MOST_WORDS = 7
CASES = [(77, "sop"), (77, "nsp"), (20, "sop"), (20, "nsp")]

Counts = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def corpus(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The official input as shards, tokenised with the official model."""
    folder = tmp_path_factory.mktemp("official")
    (folder / "tokenizer").mkdir()
    shutil.copy(shared / "fixtures/official/spiece.model", folder / "tokenizer")
    tokenizer = Tokenizer.load(folder / "tokenizer")
    text = (shared / "fixtures/official/pretraining_input.txt").read_text(encoding="utf-8")
    documents = [list(document) for document in _documents(text.split("\n"), tokenizer)]
    assert len(documents) == 124
    write_documents(folder, documents, tokenizer.vocab_size)
    return folder


def _documents(lines: list[str], tokenizer: Tokenizer) -> Iterator[list[list[int]]]:
    document: list[list[int]] = []
    for ids, line in zip(tokenizer.encode_batch(lines), lines, strict=True):
        if ids:
            document.append(ids)
        elif not line.strip() and document:
            yield document
            document = []
    if document:
        yield document


def counts_of_passes(corpus: Path, config: ExampleConfig, num_passes: int) -> Counts:
    """Counts by pass and document, each [num_passes, num_documents]."""
    loader = Loader.open([corpus], config, seed=12345)
    (shard,) = ShardSet.open(corpus, "train").shards
    (source,) = loader.corpora
    assert source.locate(source.num_batches - 1)[1] == 0, "one window, so that sentences keep their numbers"
    totals: Counts = {}
    for number in range(num_passes):
        first_sentence = source.buffer(number, 0).pairs.chunks[:, 0]
        document = np.searchsorted(shard.document_offsets, first_sentence, side="right") - 1
        for batch in loader.epoch_batches(number):
            rows = document[batch.addresses[:, 2]]
            for name, (where, amount) in _counts(batch, rows, loader).items():
                total = totals.setdefault(name, np.zeros((num_passes, shard.num_documents)))
                weights = np.broadcast_to(amount, where.shape)
                total[number] += np.bincount(where, weights, shard.num_documents)
    return totals


def _counts(batch: Batch, document: np.ndarray, loader: Loader) -> dict[str, tuple[np.ndarray, np.ndarray | int]]:
    """For each name: documents and the amounts to add to them."""
    of_mask = document[batch.masked_positions // batch.input_ids.shape[1]]
    kinds = np.array(kinds_of_masks(batch, loader.vocabulary.mask_id))
    words = words_of_runs(batch, loader.vocabulary.word_starts)
    of_run = of_mask[np.diff(batch.masked_positions, prepend=-2) > 1]
    return {
        "examples": (document, 1),
        "tokens": (document, batch.lengths),
        "full": (document, batch.lengths == loader.config.length),
        "label 1": (document, batch.sentence_labels),
        "predicted": (of_mask, 1),
        "mask": (of_mask, kinds == "masked"),
        "keep": (of_mask, kinds == "kept"),
        "random": (of_mask, kinds == "random"),
        "runs": (of_run, 1),
        **{f"runs of {n}": (of_run, words == n) for n in range(MOST_WORDS + 1)},
    }


def figures(sums: Counts) -> Counts:
    """The figures of the reference, from sums over documents."""
    return {
        "mean length": sums["tokens"] / sums["examples"],
        "full length": sums["full"] / sums["examples"],
        "masked per token": sums["predicted"] / sums["tokens"],
        "label 1": sums["label 1"] / sums["examples"],
        **{kind: sums[kind] / sums["predicted"] for kind in ("mask", "keep", "random")},
        **{f"runs of {n}": sums[f"runs of {n}"] / sums["runs"] for n in range(MOST_WORDS + 1)},
    }


def bootstrap(counts: Counts) -> Counts:
    """Figures of resampled corpora, each [NUM_RESAMPLES]."""
    generator = np.random.default_rng(0)
    num_passes, num_documents = counts["examples"].shape
    size = (NUM_RESAMPLES, num_documents)
    documents = generator.integers(num_documents, size=size)
    passes = [generator.integers(num_passes, size=size) for _ in range(REFERENCE_PASSES)]
    return figures({name: sum(c[p, documents].sum(axis=1) for p in passes) for name, c in counts.items()})


def reference_figures(shared: Path, max_predictions: int, task: str) -> dict[str, float]:
    stats = json.loads((shared / "fixtures/official/pretraining_stats.json").read_text())
    row = stats[f"max_predictions={max_predictions} random_next_sentence={task == 'nsp'}"]
    return {
        "mean length": row["mean_length"],
        "full length": row["full_length_share"],
        "masked per token": row["masked_per_token"],
        "label 1": row["label1_share"],
        **row["replacement"],
        **{f"runs of {n}": row["run_words"][str(n)] for n in range(MOST_WORDS + 1)},
    }


def outside(expected: dict[str, float], found: Counts) -> dict[str, tuple[float, float, float]]:
    """Figures of the reference that lie outside of the interval: value, lower, upper."""
    tail = (1 - COVERAGE) / 2
    bounds = {name: np.quantile(values, [tail, 1 - tail]) for name, values in found.items()}
    return {
        name: (value, *bounds[name].tolist())
        for name, value in expected.items()
        if not bounds[name][0] <= value <= bounds[name][1]
    }


@pytest.mark.parametrize(("max_predictions", "task"), CASES)
def test_statistics_agree(
    shared: Path, corpus: Path, record_exactness: Callable[[str, float, str], None], max_predictions: int, task: str
) -> None:
    config = ExampleConfig(
        task=task,  # type: ignore[arg-type]
        rules="official",
        mask=MaskConfig(max_predictions=max_predictions),
        stretch_tokens=1 << 20,
    )
    found = bootstrap(counts_of_passes(corpus, config, NUM_PASSES))
    expected = reference_figures(shared, max_predictions, task)
    deviations = {name: abs(value - found[name].mean()) / found[name].std() for name, value in expected.items()}
    record_exactness(
        f"create_pretraining_data, {task}, {max_predictions} predictions: "
        f"{len(expected)} statistics, in standard deviations of the bootstrap",
        max(deviations.values()),
        "pytest tests/parity/test_pretraining_data.py",
    )
    assert outside(expected, found) == {}


def test_other_rules_do_not_agree(shared: Path, corpus: Path) -> None:
    """The comparison can tell: bigrams only, or the paper's rules, lie outside."""
    expected = reference_figures(shared, 77, "sop")
    bigrams = ExampleConfig(rules="official", mask=MaskConfig(77 / 512, max_ngram=2))
    paper = ExampleConfig(rules="paper", short_probability=0.0)
    for config, names in ((bigrams, {"runs of 3"}), (paper, {"mean length", "label 1"})):
        found = bootstrap(counts_of_passes(corpus, config, 6))
        assert names <= outside(expected, found).keys()
