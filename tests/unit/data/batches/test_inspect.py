"""`litebert inspect`: its numbers are those of the shards and batches, its text shows the masks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.cli import run
from litebert.common.errors import InputError
from litebert.data.batches.example import Batch, ExampleConfig, MaskConfig, Vocabulary
from litebert.data.batches.inspect import (
    Histogram,
    corpus_statistics,
    example_statistics,
    inspect_shards,
    show_examples,
    words_of_runs,
)
from litebert.data.batches.loader import Loader
from litebert.data.corpus.shards import ShardSet
from litebert.text.tokenizer import Tokenizer

CONFIG = ExampleConfig(length=64, micro_batch_size=8)


def test_corpus_counts_are_those_of_the_shards(tiny_shards_dir: Path) -> None:
    shards = ShardSet.open(tiny_shards_dir, "train")
    found = corpus_statistics(shards)
    assert found.documents == sum(found.document_tokens.counts) == shards.num_documents
    assert found.sentences == sum(found.sentence_tokens.counts) == shards.num_sentences
    assert found.tokens == shards.num_tokens
    pieces = np.unique(np.concatenate([shard.tokens for shard in shards.shards]))
    assert found.pieces_used == len(pieces)


@pytest.mark.parametrize("task", ["sop", "none"])
def test_example_statistics_are_those_of_the_batches(tiny_shards_dir: Path, task: str) -> None:
    config = ExampleConfig(length=64, micro_batch_size=8, task=task)  # type: ignore[arg-type]
    loader = Loader.open([tiny_shards_dir], config, seed=3)
    batches = list(loader.epoch_batches())
    found = example_statistics(batches, config, loader.vocabulary)
    lengths = [length for batch in batches for length in batch.lengths.tolist()]
    assert found.examples == len(lengths) == sum(found.lengths.counts)
    assert found.tokens == sum(lengths)
    assert found.mean_length == pytest.approx(np.mean(lengths))
    assert found.full_length_share == lengths.count(64) / len(lengths)
    padding = sum((batch.input_ids == 0).sum() for batch in batches)
    places = sum(batch.input_ids.size for batch in batches)
    assert found.padding_share == pytest.approx(padding / places, abs=1e-3)
    assert found.masked_share == pytest.approx(0.15, abs=0.01)
    assert sum(found.replacement_shares.values()) == pytest.approx(1)
    assert found.replacement_shares["masked"] == pytest.approx(0.8, abs=0.05)
    assert sum(found.run_words.values()) == pytest.approx(1)
    labels = np.concatenate([batch.sentence_labels for batch in batches])
    expected = {} if task == "none" else {0: (labels == 0).mean(), 1: (labels == 1).mean()}
    assert found.label_shares == pytest.approx(expected)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_words_of_runs_counts_word_starts(places: list[tuple[bool, bool]]) -> None:
    """``places``: is it predicted, does its token begin a word."""
    word_starts = np.array([False, True])
    masked = np.array([index for index, (is_masked, _) in enumerate(places) if is_masked], int)
    labels = np.array([int(starts) for is_masked, starts in places if is_masked], int)
    expected, count = [], -1
    for is_masked, starts in [*places, (False, False)]:
        if is_masked:
            count = max(count, 0) + starts
        elif count >= 0:
            expected.append(count)
            count = -1
    ids = np.zeros((1, len(places)), int)
    batch = Batch(ids, ids, ids[:, 0], masked, labels, ids[:, 0], ids, 0)
    assert words_of_runs(batch, word_starts).tolist() == expected


def test_shown_text_marks_every_mask(tiny_tokenizer: Tokenizer) -> None:
    t = tiny_tokenizer
    pieces = (t.id_to_piece(index) for index in range(5, t.vocab_size))
    words = [piece[1:] for piece in pieces if piece[0] == "▁" and piece[1:].isalpha()]
    ids_of = {word: t.encode(word)[0] for word in words if len(t.encode(word)) == 1}
    (a, b, c, d, e), (id_a, id_b, id_c, id_d, id_e) = zip(*list(ids_of.items())[:5], strict=True)
    ids = np.array([[t.cls_id, id_a, t.mask_id, t.sep_id, id_e, id_d, t.sep_id, t.pad_id]])
    batch = Batch(
        input_ids=ids,
        token_type_ids=np.zeros_like(ids),
        lengths=np.array([7]),
        masked_positions=np.array([1, 2, 4]),
        masked_labels=np.array([id_a, id_b, id_c]),
        sentence_labels=np.array([1]),
        addresses=np.array([[2, 3, 4]]),
        position=0,
    )
    (shown,) = show_examples([batch], t, Vocabulary.of(t))
    assert shown.words == (a, b, c, d)
    assert shown.text == f"[CLS] [{a}=] [{b}] [SEP] [{c}→{e}] {d} [SEP]"
    kinds = [kind for _, kind in shown.spans]
    assert kinds == ["special", "kept", "masked", "special", "random", "plain", "special"]
    assert (shown.address, shown.label) == ((2, 3, 4), 1)


def test_examples_are_shown_one_of_each_batch_first(tiny_shards_dir: Path) -> None:
    found = inspect_shards(tiny_shards_dir, CONFIG, num_batches=3, num_shown=4)
    loader = Loader.open([tiny_shards_dir], CONFIG, seed=0)
    first_rows = [tuple(loader.batch(position).addresses[0]) for position in range(3)]
    assert [example.address for example in found.shown][:3] == first_rows
    assert len(found.shown) == 4


def test_histogram_counts_the_values_of_all_arrays() -> None:
    values = np.array([1, 4, 5, 9])
    assert Histogram.of([values], (1, 5, 10)).counts == (2, 2)
    assert Histogram.of([values, values], (1, 5, 10)).counts == (4, 4)


def test_command_prints_text_json_and_a_picture(
    tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    command = ["inspect", str(tiny_shards_dir), "--length", "64", "--micro-batch-size", "8"]
    run([*command, "--show", "2", "--plot", str(tmp_path / "plot.png")])
    text = capsys.readouterr().out
    for word in ("documents", "predicted tokens", "padding", "label 1, swapped", "[CLS]"):
        assert word in text
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    run([*command, "--json", "--task", "nsp", "--mask.max-predictions", "5"])
    values = json.loads(capsys.readouterr().out)
    expected = inspect_shards(tiny_shards_dir, ExampleConfig(64, 8, "nsp", mask=MaskConfig(max_predictions=5)))
    assert values["examples"]["mean_length"] == expected.examples.mean_length
    assert values["examples"]["masked_share"] == expected.examples.masked_share
    assert [row["text"] for row in values["shown"]] == [row.text for row in expected.shown]
    assert values["config"]["mask"]["max_predictions"] == 5


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--plot", "plot.bmp"], "ends in .png"),
        (["--plot", "/nowhere/plot.png"], "does not exist"),
        (["--batches", "0"], "0 batches"),
    ],
)
def test_command_refuses_what_it_cannot_do(tiny_shards_dir: Path, flags: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(["inspect", str(tiny_shards_dir), *flags])
