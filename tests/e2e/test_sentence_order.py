"""The sentence task from raw text to accuracy: order that can be learned is learned."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from litebert.common.config import from_dict, read_toml, recipe_path
from litebert.common.runs import RunFolder
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.prepare import prepare
from litebert.text.train import TokenizerTrainConfig, train_tokenizer
from litebert.train.pretraining.config import Checkpoints, Evaluation, PretrainConfig
from litebert.train.pretraining.engine import pretrain

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


def counting_text(num_documents: int) -> str:
    """Documents that count from their first sentence on, one number word among others in each."""
    draw = random.Random(0)
    words = [a + b for a in SYLLABLES for b in SYLLABLES]
    draw.shuffle(words)
    numbers, others = words[:20], words[20:80]
    documents = []
    for _ in range(num_documents):
        sentences = []
        for number in numbers[: draw.randrange(6, 17)]:
            sentence = draw.choices(others, k=draw.randrange(2, 5))
            sentence.insert(draw.randrange(len(sentence) + 1), number)
            sentences.append(" ".join(sentence) + " .")
        documents.append("\n".join(sentences))
    return "\n\n".join(documents)


def prepared(text: str, folder: Path, vocab_size: int) -> Path:
    """Token shards of a text, with a vocabulary of its own."""
    source, tokenizer, shards = folder / "text.txt", folder / "tokenizer", folder / "shards"
    source.write_text(text, encoding="utf-8")
    train_tokenizer(TokenizerTrainConfig(input=(source,), out=tokenizer, vocab_size=vocab_size))
    prepare(
        PrepareConfig(input=(source,), tokenizer=tokenizer, out=shards, layout="sentences", workers=1, dev_fraction=0.1)
    )
    return shards


def tiny_run(shards: Path, out: Path, **changes: object) -> PretrainConfig:
    """The recipe `tiny`."""
    recipe = {**read_toml(recipe_path("pretrain", "tiny")), "data": str(shards), "out": str(out)}
    config = replace(
        from_dict(PretrainConfig, recipe),
        evaluation=Evaluation(0, examples=512, final_examples=1024),
        checkpoint=Checkpoints(0),
    )
    return replace(config, **changes)  # type: ignore[arg-type]


@pytest.mark.slow
def test_numbers_that_rise_are_put_in_order(tmp_path: Path) -> None:
    shards = prepared(counting_text(4000), tmp_path, vocab_size=150)
    found = pretrain(tiny_run(shards, tmp_path / "run", steps=1000, batch_size=32), quiet=True)
    assert found.scores is not None
    assert found.scores.sop_accuracy is not None
    assert found.scores.sop_accuracy > 0.9
    assert found.scores.sop_length_rule is not None
    assert found.scores.sop_length_rule < 0.6


@pytest.mark.slow
def test_the_order_of_a_few_hundred_chunks_is_memorised(tmp_path: Path, python_text: Path) -> None:
    sentences = python_text.read_text(encoding="utf-8")
    shards = prepared(sentences[: sentences.index("\n\n", 70_000)], tmp_path, vocab_size=1000)
    config = tiny_run(shards, tmp_path / "run", steps=3000, batch_size=32)
    pretrain(config, quiet=True)
    lines = [line for line in RunFolder.open(config.out).metrics() if "sentence_accuracy" in line]
    assert fmean(float(str(line["sentence_accuracy"])) for line in lines[-20:]) > 0.9
