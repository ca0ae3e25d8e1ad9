"""Pretraining with a teacher of vectors: [CLS] comes near them, exactly so after a resume."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from litebert.common.errors import CheckpointError, DataError
from litebert.common.files import write_json_lines
from litebert.common.runs import RunFolder
from litebert.model.config import ModelConfig
from litebert.text.tokenizer import Tokenizer
from litebert.train.pretraining.config import Objective
from litebert.train.pretraining.engine import pretrain
from litebert.train.teacher_vectors import TaughtTexts
from small_run import assert_bitwise_equal, pretrain_in_parts, small_config, taught, weights

TEXTS = [f"number {n} is {'even' if n % 2 else 'odd'} and stands here" for n in range(40)]


def teacher_file(path: Path) -> Path:
    """Two kinds of texts with a direction each, wider than the student."""
    sides = np.random.default_rng(0).normal(size=(2, 96))
    noise = np.random.default_rng(1).normal(size=(len(TEXTS), 96)) * 0.2
    rows = [
        {"text": text, "embedding": (sides[number % 2] + noise[number]).tolist()} for number, text in enumerate(TEXTS)
    ]
    write_json_lines(path, rows)
    return path


def cosines(run: Path) -> list[float]:
    lines = RunFolder.open(run).metrics()
    return [float(str(line["teacher_cosine"])) for line in lines if "loss" in line]


def test_cls_learns_what_the_teacher_says(tiny_shards_dir: Path, tmp_path: Path) -> None:
    teacher = teacher_file(tmp_path / "vectors.jsonl")
    objective = Objective(teacher_batch_size=16, teacher_weight=2.0)
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=24, teacher=teacher, objective=objective)
    pretrain(config, quiet=True)
    found = cosines(tmp_path / "run")
    assert found[-1] > 0.6 > found[0]


def test_a_pair_is_read_as_two_segments(tiny_tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": "the first", "text_pair": "and then the second", "embedding": [1.0, 2.0]},
        {"text": "one alone", "text_pair": None, "embedding": [2.0, 1.0]},
    ]
    write_json_lines(tmp_path / "vectors.jsonl", rows)
    shape = ModelConfig(vocab_size=tiny_tokenizer.vocab_size, hidden_size=64)
    texts = TaughtTexts(tmp_path / "vectors.jsonl", tiny_tokenizer, shape, batch_size=2, seed=0)
    batch = texts.batch(0)
    pair, alone = np.argsort(batch.addresses[:, 2])
    ids, length = batch.input_ids[pair], batch.lengths[pair]
    first = tiny_tokenizer.encode("the first")
    second = tiny_tokenizer.encode("and then the second")
    cls, sep = tiny_tokenizer.cls_id, tiny_tokenizer.sep_id
    assert ids[:length].tolist() == [cls, *first, sep, *second, sep]
    segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert batch.token_type_ids[pair, :length].tolist() == segments
    assert not batch.token_type_ids[alone].any()
    assert batch.vectors is not None
    np.testing.assert_allclose(np.linalg.norm(batch.vectors, axis=1), 1.0, rtol=1e-6)


def test_pairs_that_differ_only_in_their_second_text_are_told_apart(tiny_shards_dir: Path, tmp_path: Path) -> None:
    rows = [
        {"text": "here", "text_pair": text, "embedding": [1.0 - number % 2, float(number % 2)]}
        for number, text in enumerate(TEXTS)
    ]
    write_json_lines(tmp_path / "vectors.jsonl", rows)
    config = small_config(
        tiny_shards_dir, tmp_path / "run", steps=60, teacher=tmp_path / "vectors.jsonl",
        objective=Objective(teacher_batch_size=32, teacher_weight=10.0),
    )  # fmt: skip
    pretrain(config, quiet=True)
    assert cosines(tmp_path / "run")[-1] > np.cos(np.pi / 4) + 0.1  # what one answer for all has


def test_lessons_are_exact_after_a_resume(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons = taught(tmp_path)
    config = small_config(tiny_shards_dir, tmp_path / "a", steps=6, **lessons)
    config = replace(config, model=replace(config.model, hidden_dropout=0.1))
    pretrain(config, quiet=True)
    broken = replace(config, out=tmp_path / "b", resume="auto")
    pretrain_in_parts(broken, monkeypatch, 3, 6)
    assert_bitwise_equal(weights(tmp_path / "a"), weights(tmp_path / "b"))
    write_json_lines(lessons["teacher"], [{"text": "another", "embedding": [1.0, 2.0]}])
    with pytest.raises(CheckpointError, match="teacher"):
        pretrain(replace(broken, steps=8), quiet=True)


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([], "has no vectors"),
        ([{"text": "a"}], "needs the columns text and embedding"),
        ([{"text": "a", "embedding": "b"}], "is not a vector of numbers"),
        ([{"text": "a", "embedding": [float("inf"), 1.0]}], "is not a vector of numbers"),
        ([{"text": "a", "embedding": [1]}, {"text": "b", "embedding": [1, 2]}], "different sizes"),
    ],
)
def test_a_file_without_vectors_is_one_line(
    rows: list[dict[str, object]], wrong: str, tiny_shards_dir: Path, tmp_path: Path
) -> None:
    teacher = tmp_path / "vectors.jsonl"
    write_json_lines(teacher, rows)
    with pytest.raises(DataError, match=wrong):
        pretrain(small_config(tiny_shards_dir, tmp_path / "run", teacher=teacher), quiet=True)


def test_a_file_that_is_not_there_is_one_line(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", teacher=tmp_path / "none.parquet")
    with pytest.raises(DataError, match="does not exist"):
        pretrain(config, quiet=True)
