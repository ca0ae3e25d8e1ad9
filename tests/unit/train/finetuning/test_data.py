"""Subsets of the data: the same every time, spread over the file, features with their examples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from litebert.common.errors import ConfigError, DataError
from litebert.tasks.base import Example, Feature, Prediction, Row
from litebert.tasks.registry import find_task
from litebert.tasks.scoring import TaskSplit, sample
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.results import write_predictions
from litebert.train.finetuning.setup import load_task_data


def split(num_examples: int) -> TaskSplit:
    examples = [Example(str(index), "text") for index in range(num_examples)]
    features = [
        Feature(index, (Row(np.array([index, part], np.int32), 2),))
        for index in range(num_examples)
        for part in range(1 + index % 3)
    ]
    return TaskSplit("dev", examples, features)


def test_a_sample_keeps_features_with_their_examples() -> None:
    whole = split(100)
    part = whole.sample(20)
    assert len(part.examples) == 20
    for feature in part.features:
        assert part.examples[feature.example].id == str(feature.rows[0].ids[0])
    assert len(part.features) == sum(1 + int(e.id) % 3 for e in part.examples)
    assert {int(e.id) // 50 for e in part.examples} == {0, 1}
    assert [e.id for e in whole.sample(20).examples] == [e.id for e in part.examples]
    assert whole.sample(None) is whole
    assert whole.sample(100) is whole


def test_training_subsets_keep_the_order_of_the_file() -> None:
    examples = split(50).examples
    ids = [int(example.id) for example in sample(examples, 10)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 10
    assert sample(examples, None) is examples


def test_the_fingerprint_sees_ids_and_targets() -> None:
    whole = split(10)
    assert whole.fingerprint() == split(10).fingerprint()
    assert whole.fingerprint() != split(11).fingerprint()
    changed = [*whole.features[:-1], Feature(9, whole.features[-1].rows, np.array(1))]
    assert TaskSplit("dev", whole.examples, changed).fingerprint() != whole.fingerprint()


def test_one_file_cannot_be_both_splits(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("sentence\tlabel\nfine\t1\ndull\t0\n")
    (tmp_path / "train.tsv").write_text("sentence\tlabel\nfine\t1\n")
    task = find_task("sst2")
    with pytest.raises(ConfigError, match=r"dev\.tsv is a file; .* folder"):
        load_task_data(task, path, tiny_tokenizer, 16, None, strict=False)
    data = load_task_data(task, tmp_path, tiny_tokenizer, 16, None, strict=False)
    assert data.available == {"train": 1, "dev": 2}


def test_every_split_of_a_run_has_labels(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    (tmp_path / "train.tsv").write_text("sentence\tlabel\nfine\t1\n")
    (tmp_path / "dev.tsv").write_text("sentence\nfine\ndull\n")
    with pytest.raises(DataError, match="2 of 2 examples of sst2's dev split have no label"):
        load_task_data(find_task("sst2"), tmp_path, tiny_tokenizer, 16, None, strict=False)
    passage = {"id": "high1", "article": "A.", "questions": ["B?"], "options": [["c", "d"]]}
    for split in ("train", "dev"):
        (tmp_path / f"{split}.high.jsonl").write_text(json.dumps(passage) + "\n")
    with pytest.raises(DataError, match=r"race-high's train split .* \(first: high1-0\)"):
        load_task_data(find_task("race-high"), tmp_path, tiny_tokenizer, 16, None, strict=False)


def test_a_model_that_always_says_the_same_is_noticed(
    tmp_path: Path, tiny_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("sentence\tlabel\nfine\t1\ndull\t0\n")
    data = load_task_data(find_task("sst2"), tmp_path, tiny_tokenizer, 16, None, strict=False)
    (dev,) = data.evals
    label = data.task.form.labels[1]
    for values, said in (((1, 0), ""), ((1, 1), f"every dev example gets the same answer, {label}")):
        predictions = [
            Prediction(example.id, value, (0.5, 0.5)) for example, value in zip(dev.examples, values, strict=True)
        ]
        write_predictions(tmp_path, data, dev, predictions)
        error = capsys.readouterr().err
        assert said in error
        assert bool(said) == bool(error)
