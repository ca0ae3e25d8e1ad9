"""Laws of the loader: pure in its position, every chunk once, ranks, workers, resume, mixtures."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.common.errors import ConfigError, DataError, LitebertError
from litebert.data.batches.example import Batch, ExampleConfig, MaskConfig, Rules, Task, Vocabulary
from litebert.data.batches.loader import MIXTURE_PERIOD, Loader, _shares
from litebert.data.batches.order import deal
from litebert.data.corpus.shards import ShardSet
from small_shards import write_documents

FIRST_ID = 5
CONFIG = ExampleConfig(length=32, micro_batch_size=4, stretch_tokens=600, buffer_stretches=2)


def numbered_documents(num_documents: int, seed: int = 0) -> list[list[list[int]]]:
    """Documents in which every token has an id of its own, in the order of the text."""
    generator = np.random.default_rng(seed)
    documents, token = [], FIRST_ID
    for _ in range(num_documents):
        document = []
        for size in generator.integers(1, 16, size=generator.integers(1, 40)).tolist():
            document.append(list(range(token, token + size)))
            token += size
        documents.append(document)
    return documents


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ShardSet:
    """About 10,000 tokens, each with its own id, in a few shards."""
    documents = numbered_documents(60)
    vocab_size = documents[-1][-1][-1] + 1
    folder = tmp_path_factory.mktemp("corpus")
    return write_documents(folder, documents, vocab_size, shard_tokens=3000)


def vocabulary_of(shards: ShardSet) -> Vocabulary:
    return Vocabulary(np.arange(shards.vocab_size) % 3 > 0)


def loader_of(shards: ShardSet, config: ExampleConfig = CONFIG, seed: int = 1) -> Loader:
    return Loader([(shards, 1.0)], config, seed, vocabulary_of(shards))


def equal(first: Batch, second: Batch) -> bool:
    return all(np.array_equal(getattr(first, field.name), getattr(second, field.name)) for field in fields(Batch))


def unmasked(batch: Batch) -> np.ndarray:
    """Input ids with the original tokens put back, [B, S]."""
    ids = batch.input_ids.copy()
    ids.reshape(-1)[batch.masked_positions] = batch.masked_labels
    return ids


def segments(batch: Batch) -> Iterator[tuple[list[int], list[int], int]]:
    """The original tokens of A and of B, and the label."""
    rows = zip(unmasked(batch), batch.token_type_ids, batch.lengths, batch.sentence_labels, strict=True)
    for ids, types, length, label in rows:
        num_a = int((types[:length] == 0).sum())
        yield ids[1 : num_a - 1].tolist(), ids[num_a : length - 1].tolist(), int(label)


def test_layout_of_a_batch(corpus: ShardSet) -> None:
    vocabulary = vocabulary_of(corpus)
    for task in ("sop", "nsp", "none"):
        loader = loader_of(corpus, replace(CONFIG, task=task))
        for batch in islice(loader.iterate(), 20):
            ids, rows = unmasked(batch), np.arange(len(batch.lengths))
            assert batch.input_ids.shape == batch.token_type_ids.shape
            assert batch.input_ids.shape[1] == batch.lengths.max() <= CONFIG.length
            assert (ids[:, 0] == vocabulary.cls_id).all()
            assert (ids[rows, batch.lengths - 1] == vocabulary.sep_id).all()
            padding = np.arange(ids.shape[1]) >= batch.lengths[:, None]
            assert (ids[padding] == vocabulary.pad_id).all()
            assert (batch.token_type_ids[padding] == 0).all()
            specials = (ids == vocabulary.cls_id) | (ids == vocabulary.sep_id)
            expected = 2 if task == "none" else 3
            assert (specials.sum(axis=1) == expected).all()
            if task != "none":
                last = ids[rows, (batch.token_type_ids == 0).argmin(axis=1) - 1]
                assert (last == vocabulary.sep_id).all(), "types change behind the first [SEP]"
            assert (np.diff(batch.masked_positions) > 0).all()
            assert (batch.masked_labels >= FIRST_ID).all(), "specials are never masked"


def test_examples_are_text_of_the_corpus(corpus: ShardSet) -> None:
    documents = [[t for s in document for t in s] for document in numbered_documents(60)]
    document_of = {token: number for number, ids in enumerate(documents) for token in ids}
    for task in ("sop", "nsp"):
        for batch in loader_of(corpus, replace(CONFIG, task=task)).epoch_batches():
            for a, b, label in segments(batch):
                for segment in (a, b):
                    assert segment == list(range(segment[0], segment[-1] + 1))
                    assert document_of[segment[0]] == document_of[segment[-1]]
                same_document = document_of[a[0]] == document_of[b[0]]
                if task == "sop":
                    assert same_document
                    assert (a[0] > b[0]) == (label == 1)
                else:
                    assert same_document == (label == 0)


@pytest.mark.parametrize("rules", ["paper", "official", "balanced"])
@pytest.mark.parametrize("task", ["sop", "nsp", "none"])
def test_every_chunk_comes_exactly_once_per_epoch(corpus: ShardSet, task: Task, rules: Rules) -> None:
    loader = loader_of(corpus, replace(CONFIG, task=task, rules=rules))
    source = loader.corpora[0]
    num_buffers = source.locate(source.num_batches - 1)[1] + 1
    assert num_buffers > 2, "the test needs several buffers"
    for epoch in (0, 3):
        addresses = [tuple(a) for b in loader.epoch_batches(epoch) for a in b.addresses.tolist()]
        buffers = [source.buffer(epoch, number) for number in range(num_buffers)]
        expected = {(epoch, w, i) for w, buffer in enumerate(buffers) for i in range(len(buffer.pairs))}
        assert len(addresses) == len(set(addresses))
        assert set(addresses) == expected
        taken = sum(int(np.diff(buffer.pairs.chunks).sum()) for buffer in buffers)
        left_out = corpus.num_sentences - taken  # chunks of one token make no pair
        assert 0 <= left_out < 0.05 * corpus.num_sentences
        if task == "none":
            assert left_out == 0
        tokens = np.concatenate([buffer.tokens for buffer in buffers])
        assert len(np.unique(tokens)) == len(tokens) == corpus.num_tokens


def test_a_batch_is_a_pure_function_of_its_position(corpus: ShardSet) -> None:
    loader, again = loader_of(corpus), loader_of(corpus)
    num_batches = loader.corpora[0].num_batches
    positions = np.random.default_rng(0).integers(0, 3 * num_batches, size=60).tolist()
    expected = {position: loader.batch(position) for position in sorted(positions)}
    for position in positions:
        assert equal(again.batch(position), expected[position])
        assert expected[position].position == position
    other_seed = loader_of(corpus, seed=2)
    assert not any(equal(other_seed.batch(p), expected[p]) for p in positions)


def test_epochs_differ(corpus: ShardSet) -> None:
    loader = loader_of(corpus)
    first, second = (list(loader.epoch_batches(epoch)) for epoch in (0, 1))
    assert len(first) == len(second) == loader.corpora[0].num_batches
    assert not any(np.array_equal(a.input_ids, b.input_ids) for a, b in zip(first, second, strict=True))


def test_epochs_buffers_and_batches_draw_their_own_numbers(tmp_path: Path) -> None:
    # All documents alike, so that only the random numbers can make a difference.
    shards = write_documents(tmp_path, [[[7] * 9] * 20] * 64, 10, shard_tokens=10**6)
    loader = loader_of(shards, replace(CONFIG, stretch_tokens=900, task="none", short_probability=0))
    (source,) = loader.corpora
    orders = [source.buffer(e, w).pairs.starts.tolist() for e in (0, 1) for w in (0, 1)]
    assert all(first != second for first, second in pairwise(orders))
    masks = [b.masked_positions.tolist() for e in (0, 1) for b in loader.epoch_batches(e)]
    assert len({tuple(places) for places in masks}) == len(masks)


def test_blocks_meet_others_in_every_epoch(corpus: ShardSet) -> None:
    (source,) = loader_of(corpus).corpora
    contents = [set(source.buffer(epoch, 0).tokens.tolist()) for epoch in range(4)]
    assert all(first != second for first, second in pairwise(contents))


@pytest.mark.parametrize("rules", ["paper", "official"])
def test_only_official_words_go_on_across_the_border(corpus: ShardSet, rules: Rules) -> None:
    loader = loader_of(corpus, replace(CONFIG, rules=rules, task="nsp"))
    word_starts, apart, together = loader.vocabulary.word_starts, 0, 0
    for epoch in range(3):
        for batch in loader.epoch_batches(epoch):
            masked = np.zeros(batch.input_ids.size, dtype=bool)
            masked[batch.masked_positions] = True
            first_of_b = batch.token_type_ids.argmax(axis=1)
            place = np.arange(len(first_of_b)) * batch.input_ids.shape[1] + first_of_b
            continues = ~word_starts[unmasked(batch).reshape(-1)[place]]
            apart += int((masked[place] != masked[place - 2])[continues].sum())
            together += int((masked[place] & masked[place - 2])[continues].sum())
    assert (apart == 0) == (rules == "official")
    assert together > 0


@given(start=st.integers(0, 200), num_ranks=st.integers(1, 6), count=st.integers(1, 8))
@settings(max_examples=15, deadline=None)
def test_any_number_of_ranks_sees_the_same_batches(
    tmp_path_factory: pytest.TempPathFactory, start: int, num_ranks: int, count: int
) -> None:
    loader = loader_of(_shared_corpus(tmp_path_factory.getbasetemp()))
    one = list(islice(loader.iterate(start), count * num_ranks))
    ranks = [list(islice(loader.iterate(start + rank, stride=num_ranks), count)) for rank in range(num_ranks)]
    merged = [ranks[i % num_ranks][i // num_ranks] for i in range(count * num_ranks)]
    assert all(equal(a, b) for a, b in zip(one, merged, strict=True))
    resumed = list(islice(loader.iterate(start + num_ranks), (count - 1) * num_ranks))
    assert all(equal(a, b) for a, b in zip(one[num_ranks:], resumed, strict=True))


@lru_cache
def _shared_corpus(base: Path) -> ShardSet:
    documents = numbered_documents(60)
    return write_documents(base / "ranks", documents, documents[-1][-1][-1] + 1)


@pytest.mark.parametrize("num_workers", [1, 3])
def test_workers_give_the_same_batches_and_stop(corpus: ShardSet, num_workers: int) -> None:
    loader = loader_of(corpus)
    expected = list(islice(loader.iterate(5, stride=2), 8))
    iterator = loader.iterate(5, stride=2, num_workers=num_workers)
    found = list(islice(iterator, 8))
    assert len(multiprocessing.active_children()) == num_workers
    iterator.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []
    assert all(equal(a, b) for a, b in zip(expected, found, strict=True))


def test_a_killed_worker_is_reported(corpus: ShardSet) -> None:
    iterator = loader_of(corpus).iterate(num_workers=1)
    next(iterator)
    (worker,) = multiprocessing.active_children()
    os.kill(worker.pid, signal.SIGKILL)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="exit code -9"):
        list(iterator)
    assert multiprocessing.active_children() == []


ORPHANS = """
import multiprocessing, sys, time
import numpy as np
from litebert.data.batches.example import ExampleConfig, Vocabulary
from litebert.data.batches.loader import Loader
from litebert.data.corpus.shards import ShardSet

if __name__ == "__main__":
    shards = ShardSet.open(sys.argv[1], "train")
    words = Vocabulary(np.ones(shards.vocab_size, dtype=bool))
    batches = Loader([(shards, 1.0)], ExampleConfig(length=32), 1, words).iterate(num_workers=2)
    next(batches)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(1000)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_end_when_their_parent_is_killed(corpus: ShardSet, tmp_path: Path) -> None:
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    command = [sys.executable, str(script), str(corpus.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(is_running(pid) for pid in workers)
        parent.kill()
    for _ in range(600):
        if not any(is_running(pid) for pid in workers):
            break
        time.sleep(0.1)
    assert not any(is_running(pid) for pid in workers)


def damaged_corpus(folder: Path) -> tuple[ShardSet, Vocabulary]:
    """A corpus with an id beyond its vocabulary, as a flipped byte would make it."""
    shards = write_documents(folder, numbered_documents(3), 2000)
    path = shards.shards[0].bin_path
    np.full(shards.num_tokens, 65_000, dtype="<u2").tofile(path)
    return shards, vocabulary_of(shards)


def test_an_error_in_a_worker_comes_out_as_it_is(tmp_path: Path) -> None:
    shards, vocabulary = damaged_corpus(tmp_path)
    loader = Loader([(shards, 1.0)], CONFIG, 1, vocabulary)
    messages = []
    for num_workers in (0, 2):
        with pytest.raises(DataError, match="65000") as raised:
            next(loader.iterate(num_workers=num_workers))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert "\n" not in messages[0]


def test_damaged_shards_are_named(tmp_path: Path) -> None:
    shards = write_documents(tmp_path, numbered_documents(3), 2000)
    path = shards.shards[0].idx_path
    content = bytearray(path.read_bytes())
    content[40] ^= 0x80
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"00000\.idx is damaged"):
        loader_of(shards)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        loader_of(shards)


def test_a_pickled_loader_carries_no_data(corpus: ShardSet) -> None:
    loader = loader_of(corpus)
    before = len(pickle.dumps(loader))
    loader.batch(0)
    assert len(pickle.dumps(loader)) < before + 2000
    assert equal(pickle.loads(pickle.dumps(loader)).batch(7), loader.batch(7))


def test_batches_have_equal_cost_and_little_padding(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    documents = [
        [
            generator.integers(5, 99, size=size).tolist()
            for size in 2 + generator.poisson(22, size=generator.integers(1, 80))
        ]
        for _ in range(500)
    ]
    shards = write_documents(tmp_path, documents, 99)
    for rules in ("paper", "official"):
        config = ExampleConfig(length=128, micro_batch_size=16, rules=rules)
        batches = list(loader_of(shards, config).epoch_batches())
        sizes = np.array([batch.input_ids.size for batch in batches])
        tokens = sum(batch.num_tokens for batch in batches)
        assert 1 - tokens / sizes.sum() < 0.02
        assert sizes.max() <= 1.05 * config.batch_tokens
        assert 0.93 < sizes.mean() / config.batch_tokens < 1
        longest = [batch.input_ids.shape[1] for batch in batches]
        assert longest != sorted(longest), "lengths come in random order"


@settings(deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=9).map(sorted), st.integers(1, 12))
def test_deal_is_the_best_cut(lengths: list[int], num_batches: int) -> None:
    bounds = deal(np.array(lengths), num_batches)
    assert bounds.shape == (num_batches, 2)
    assert (bounds[:, 1] > bounds[:, 0]).all()
    if num_batches > len(lengths):
        assert set(bounds[:, 0]) == set(range(len(lengths))), "every example at least once"
        return
    assert bounds[0, 0] == 0
    assert bounds[-1, 1] == len(lengths)
    assert all(first[1] == second[0] for first, second in pairwise(bounds))
    cost = max((last - first) * lengths[last - 1] for first, last in bounds)
    assert cost == _best_cost(tuple(lengths), num_batches)


@lru_cache(maxsize=100_000)
def _best_cost(lengths: tuple[int, ...], num_batches: int) -> int:
    if num_batches == 1:
        return len(lengths) * lengths[-1]
    return min(
        max(_best_cost(lengths[:cut], num_batches - 1), (len(lengths) - cut) * lengths[-1])
        for cut in range(num_batches - 1, len(lengths))
    )


def test_with_mask_rate_changes_the_masks_alone(corpus: ShardSet) -> None:
    loader = loader_of(corpus, replace(CONFIG, mask=MaskConfig(whole_words=False)))
    more = loader.with_mask_rate(0.4)
    assert more.corpora is loader.corpora
    for position in range(20):
        few, many = loader.batch(position), more.batch(position)
        assert np.array_equal(unmasked(few), unmasked(many))
        assert np.array_equal(few.addresses, many.addresses)
        budget = np.rint(0.4 * many.lengths).sum()
        assert len(few.masked_labels) < len(many.masked_labels) == budget


def test_half_of_the_batches_begin_somewhere_within_the_positions(corpus: ShardSet) -> None:
    plain, moved = loader_of(corpus), loader_of(corpus, replace(CONFIG, positions=64))
    first = []
    for one, other in islice(zip(plain.iterate(), moved.iterate(), strict=True), 200):
        assert equal(one, replace(other, first_position=0))  # nothing else changes
        assert other.first_position + other.input_ids.shape[1] <= 64
        first.append(other.first_position)
    assert 70 < sum(place > 0 for place in first) < 130
    assert max(first) > 25
    assert moved.batch(3).first_position == moved.batch(3).first_position
    too_few = loader_of(corpus, replace(CONFIG, positions=8))
    assert all(batch.first_position == 0 for batch in islice(too_few.iterate(), 20))


def test_a_stage_has_an_order_of_its_own(corpus: ShardSet) -> None:
    vocabulary = vocabulary_of(corpus)
    first, second = (Loader([(corpus, 1.0)], CONFIG, 1, vocabulary, stage) for stage in (0, 1))
    assert not equal(first.batch(0), second.batch(0))


def test_mixture_has_exact_shares_and_keeps_each_order(corpus: ShardSet, tmp_path: Path) -> None:
    other = write_documents(tmp_path, numbered_documents(20, seed=5), corpus.vocab_size)
    vocabulary = vocabulary_of(corpus)
    mixed = Loader([(corpus, 3.0), (other, 1.0)], CONFIG, 1, vocabulary)
    alone = Loader([(corpus, 1.0)], CONFIG, 1, vocabulary)
    sources = list[int]()
    for batch in islice(mixed.iterate(), MIXTURE_PERIOD + 400):
        if batch.source == 0:
            own = replace(batch, position=sources.count(0))
            assert equal(own, alone.batch(own.position))
        sources.append(batch.source)
    assert sources[:MIXTURE_PERIOD].count(0) == 750
    assert sources[:MIXTURE_PERIOD].count(1) == 250
    assert sources[:400] != sources[MIXTURE_PERIOD:], "every period has its own order"
    for position in (0, 1, 999, 1000, 1337):
        seen = [sources[:position].count(source) for source in (0, 1)]
        expected = [n / c.num_batches for n, c in zip(seen, mixed.corpora, strict=True)]
        assert list(mixed.epochs_at(position)) == pytest.approx(expected)


def test_epochs_at_a_position(corpus: ShardSet) -> None:
    loader = loader_of(corpus)
    num_batches = loader.corpora[0].num_batches
    assert loader.epochs_at(2 * num_batches) == (2.0,)
    assert loader.batch(num_batches - 1).addresses[0, 0] == 0
    assert loader.batch(num_batches).addresses[0, 0] == 1


def test_opened_folders_share_a_tokenizer_and_count_by_tokens(tiny_shards_dir: Path, tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    shutil.copytree(tiny_shards_dir, same)
    shutil.copytree(tiny_shards_dir, other)
    loader = Loader.open([tiny_shards_dir, same], CONFIG, seed=1)
    passes = np.array(loader.epochs_at(MIXTURE_PERIOD))
    num_batches = [corpus.num_batches for corpus in loader.corpora]
    assert passes * num_batches == pytest.approx(MIXTURE_PERIOD / 2)
    settings_file = other / "tokenizer" / "tokenizer_config.json"
    values = json.loads(settings_file.read_text()) | {"do_lower_case": False}
    settings_file.write_text(json.dumps(values))
    with pytest.raises(DataError, match="another tokenizer"):
        Loader.open([tiny_shards_dir, other], CONFIG, seed=1)


def test_a_corpus_of_one_sentence_still_gives_batches(tmp_path: Path) -> None:
    shards = write_documents(tmp_path, [[[5, 6, 7, 8]]], 10)
    loader = loader_of(shards)
    for batch in islice(loader.iterate(), 3):
        ((a, b, label),) = segments(batch)
        assert (b + a if label else a + b) == [5, 6, 7, 8]


def test_what_cannot_work_is_refused_in_one_line(tmp_path: Path) -> None:
    one = write_documents(tmp_path / "one", [[[5, 6], [7, 8]]], 10)
    empty = ShardSet.open(tmp_path / "one", "dev")
    words = vocabulary_of(one)
    cases: list[tuple[Callable[[], object], type[LitebertError], str]] = [
        (lambda: Loader([(one, 0.0)], CONFIG, 1, words), ConfigError, "above 0"),
        (lambda: Loader([(empty, 1.0)], CONFIG, 1, words), DataError, "no dev documents"),
        (lambda: loader_of(one, replace(CONFIG, task="nsp")), DataError, "use task sop"),
        (lambda: loader_of(one, replace(CONFIG, task="both")), DataError, "task both needs"),
        (lambda: ExampleConfig(length=4), ConfigError, "length 4"),
        (lambda: ExampleConfig(buffer_stretches=1), ConfigError, "buffer_stretches is 1"),
        (lambda: ExampleConfig(short_probability=2), ConfigError, "short_probability is 2"),
    ]
    for action, kind, message in cases:
        with pytest.raises(kind, match=message) as raised:
            action()
        assert "\n" not in str(raised.value)


def test_every_corpus_of_a_mixture_is_drawn() -> None:
    shares = _shares([5000, 1, 1])
    assert shares.tolist() == [MIXTURE_PERIOD - 2, 1, 1]
    assert _shares([1] * 7).sum() == MIXTURE_PERIOD
