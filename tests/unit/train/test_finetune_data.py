"""Subsets of the data: the same every time, spread over the file, features with their examples."""

from __future__ import annotations

import numpy as np

from litebert.tasks.base import Example, Feature, Row
from litebert.train.finetune_data import TaskSplit, sample


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
