"""Texts to compare: what files may hold, how they are scored, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from litebert.common.errors import ConfigError, DataError, InputError
from litebert.tasks.base import Example, Prediction
from litebert.tasks.custom import CustomTask
from litebert.tasks.forms.similarity import CORPUS, EQUAL, SimilarityForm, Vectors, compared
from litebert.tasks.metrics import retrieval_scores
from litebert.tasks.problems import RowProblems

ROWS = [
    {"a": "a dog runs", "b": "the dog is running", "n": "stars shine", "m": "rain", "s": "4.5"},
    {"a": "it rains", "b": "rain falls", "n": "a cat sleeps", "m": "sun", "s": "5"},
]


def task_of(folder: Path, columns: str, more: str = "", files: str = "") -> CustomTask:
    for name in ("train", "dev"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    text = f'name = "near"\nkind = "similarity"\n{more}\n[files]\ntrain = "train.jsonl"\n'
    text += f'dev = "dev.jsonl"\n{files}\n[columns]\n{columns}\n'
    (folder / "task.toml").write_text(text)
    return CustomTask.load(folder / "task.toml")


def test_columns_say_what_examples_are(tmp_path: Path) -> None:
    pair = 'text = "a"\ntext_pair = "b"\n'
    cases = {
        pair + 'label = "s"': (4.5, (), "spearman"),
        pair: (EQUAL, (), "ndcg_at_10"),
        pair + 'negatives = ["n", "m"]': (EQUAL, ("stars shine", "rain"), "accuracy"),
    }
    for columns, (gold, options, metric) in cases.items():
        task = task_of(tmp_path, columns, "score_range = [0, 5]")
        example = task.read(tmp_path, "train", RowProblems())[0]
        assert (example.gold, example.options, task.main_metric) == (gold, options, metric)


def test_sentences_learn_from_one_file_and_are_judged_by_another(tmp_path: Path) -> None:
    dev = '[dev_columns]\ntext = "a"\ntext_pair = "b"\nlabel = "s"'
    task = task_of(tmp_path, f'text = "n"\n{dev}', "score_range = [0, 5]")
    assert task.main_metric == "spearman"
    assert task.has_bare_sentences
    train, judged = (task.read(tmp_path, name, RowProblems()) for name in ("train", "dev"))
    assert [e.text_pair for e in train] == [None, None]
    assert [e.gold for e in judged] == [4.5, 5.0]


def test_a_corpus_adds_texts_to_be_found(tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"text": "another"}\n{"b": "one more"}\n{"text": ""}\n')
    task = task_of(tmp_path, 'text = "a"\ntext_pair = "b"', files='corpus = "more.jsonl"')
    problems = RowProblems()
    found = [e.text for e in task.read(tmp_path, "dev", problems) if e.group == CORPUS]
    assert found == ["another", "one more"]
    assert problems.counts() == {"empty text": 1}
    assert len(task.read(tmp_path, "train", problems)) == len(ROWS)


@pytest.mark.parametrize(
    ("columns", "more", "line"),
    [
        ('text = "a"', "", "dev needs pairs"),
        ('text = "a"\ntext_pair = "b"\nlabel = "s"', "", "needs score_range"),
        ('text = "a"\ntext_pair = "b"\nlabel = "s"', "score_range = [5, 0]", "needs score_range"),
        ('text = "a"\nnegatives = ["n"]', "", "need columns.text_pair"),
        ('text = "a"\ntext_pair = "b"\nlabel = "s"\nnegatives = ["n"]', "", "not both"),
    ],
)
def test_what_a_task_file_lacks_is_said(tmp_path: Path, columns: str, more: str, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        task_of(tmp_path, columns, more)


def test_triplets_with_empty_cells_are_reported_or_refused(tmp_path: Path) -> None:
    task = task_of(tmp_path, 'text = "a"\ntext_pair = "b"\nnegatives = ["n"]')
    with (tmp_path / "train.jsonl").open("a") as stream:
        stream.write('{"a": "x", "b": "y", "n": " "}\n{"a": "x", "b": "y", "n": null}\n')
    problems = RowProblems()
    assert len(task.read(tmp_path, "train", problems)) == len(ROWS)
    assert problems.counts() == {"empty text": 2}
    with pytest.raises(DataError, match="train.jsonl:3: empty text"):
        task.read(tmp_path, "train", RowProblems(strict=True))


def test_scores_outside_their_range_are_bad_rows(tmp_path: Path) -> None:
    columns = 'text = "a"\ntext_pair = "b"\nlabel = "s"'
    task = task_of(tmp_path, columns, "score_range = [0, 4.8]")
    problems = RowProblems()
    assert len(task.read(tmp_path, "train", problems)) == 1
    assert problems.counts() == {"score outside score_range": 1}


def test_ranks_are_those_of_a_full_sort() -> None:
    generator = np.random.default_rng(0)
    texts = [f"q{i % 12}" for i in range(20)], [f"d{i}" for i in range(20)]
    names = list(dict.fromkeys([*texts[0], *texts[1], "extra"]))
    rows = generator.integers(-2, 3, (len(names), 4)).astype(np.float32)  # many ties
    vectors = Vectors({name: i for i, name in enumerate(names)}, rows)
    examples = [Example(str(i), a, b, gold=EQUAL) for i, (a, b) in enumerate(zip(*texts, strict=True))]
    examples.append(Example("c", "extra", gold=EQUAL, group=CORPUS))
    found = compared(examples, vectors.pairs, vectors.matrix)
    documents = [*texts[1], "extra"]
    for example, prediction in zip(examples[:-1], found[:-1], strict=True):
        scores = vectors.matrix([example.text], documents)[0]
        order = [documents[i] for i in np.argsort(-scores, kind="stable")]
        assert prediction.value == 1 + order.index(str(example.text_pair))


def test_retrieval_scores_by_hand() -> None:
    found = retrieval_scores([[1, 3], [20]])
    assert found["recall_at_1"] == (0.5 + 0) / 2
    assert found["recall_at_10"] == (1 + 0) / 2
    assert found["mrr"] == (1 + 1 / 20) / 2
    best = 1 + 1 / np.log2(3)
    assert found["ndcg_at_10"] == pytest.approx(((1 + 1 / 2) / best + 0) / 2)


def test_scores_go_by_what_examples_are() -> None:
    form = SimilarityForm()
    triplets = [Example(str(i), "a", "b", ("c",), gold=EQUAL) for i in range(4)]
    values = [Prediction(str(i), value) for i, value in enumerate((0.1, -0.2, 0.3, 0.0))]
    assert form.score(triplets, values) == {"accuracy": 0.5}
    pairs = [Example(str(i), "a", "b", gold=float(i)) for i in range(4)]
    said = [Prediction(str(i), i**3) for i in range(4)]
    assert form.score(pairs, said)["spearman"] == pytest.approx(1)
    assert form.score(pairs, said)["pearson"] < 1
    assert {"mrr", "ndcg_at_10", "recall_at_10"} <= form.score(
        [Example("0", "a", "b", gold=EQUAL)], [Prediction("0", 1)]
    ).keys()


def test_a_request_needs_two_texts() -> None:
    with pytest.raises(InputError, match="use embed"):
        SimilarityForm().parse({"text": "alone"}, "0")
