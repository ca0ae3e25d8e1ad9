"""Teachers: what they say is learned, softened and weighted; one of another task is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from litebert.cli import main
from litebert.common.errors import ConfigError, DataError, InputError
from litebert.common.rows import read_rows, write_vectors
from litebert.interop.folder import load_config
from litebert.model.heads import teacher_loss
from litebert.model.similarity import match_loss
from litebert.predict.predictor import Predictor
from litebert.train.finetuning.engine import finetune
from litebert.train.finetuning.setup import prepare_data
from litebert.train.finetuning.teacher import with_teacher
from litebert.train.teacher_vectors import aligned, fitted
from small_finetuning import EXAMPLES, small_finetuning
from tiny_models import random_model_folder


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("start") / "tiny"
    return random_model_folder(folder, "pretraining", tiny_tokenizer_dir)


@pytest.fixture(scope="module")
def teacher(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("teacher") / "run"
    finetune(small_finetuning(start, out, "classification", steps=20))
    return out / "model"


def test_a_teacher_that_agrees_has_nothing_to_teach() -> None:
    logits = torch.randn(5, 3)
    classes, flags, numbers = torch.zeros(5, dtype=torch.int64), torch.ones(5, 3), torch.ones(5)
    assert teacher_loss(logits, logits, 2.0, classes).item() == pytest.approx(0, abs=1e-6)
    assert teacher_loss(logits[:, :1], logits[:, 0], 2.0, numbers).item() == 0
    other = logits + torch.randn(5, 3)
    for targets in (classes, flags):
        own, far = (teacher_loss(x, logits, 2.0, targets) for x in (logits, other))
        assert far > own


def test_softened_probabilities_are_those_of_the_formula() -> None:
    logits, said = torch.randn(4, 3), torch.randn(4, 3)
    p, q = (torch.softmax(x / 3, -1) for x in (said, logits))
    wanted = 9 * (p * (p / q).log()).sum(-1).mean()
    found = teacher_loss(logits, said, 3.0, torch.zeros(4, dtype=torch.int64))
    assert found.item() == pytest.approx(wanted.item(), abs=1e-6)


def test_a_match_is_half_the_squared_distance() -> None:
    ours, theirs = torch.nn.functional.normalize(torch.randn(2, 6, 2, 9), dim=-1)
    wanted = ((ours - theirs) ** 2).sum(-1).mean() / 2
    assert match_loss(ours, theirs).item() == pytest.approx(wanted.item(), abs=1e-6)


def test_vectors_of_any_size_fit_and_keep_their_cosines() -> None:
    drawn = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    turned = drawn @ np.linalg.qr(np.random.default_rng(1).normal(size=(12, 8)))[0].T
    for vectors, size in ((drawn, 12), (turned.astype(np.float32), 8), (drawn, 8)):
        found = fitted(vectors, size)
        assert found.shape == (20, size)
        assert np.abs(found @ found.T - drawn @ drawn.T).max() < 1e-5
    assert np.abs(np.linalg.norm(fitted(drawn, 5), axis=1) - 1).max() < 1e-6


def test_vectors_are_turned_to_where_the_student_has_them() -> None:
    wanted = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    own = (wanted @ turn + 3.0).astype(np.float32)  # the same but for a turn and a common part
    found = aligned(wanted, own[:30])
    assert np.abs(found - (own - 3.0)).max() < 1e-1
    assert np.abs(found @ found.T - wanted @ wanted.T).max() < 1e-4


def test_its_logits_come_in_the_order_of_the_task(start: Path, teacher: Path, tmp_path: Path) -> None:
    config = small_finetuning(start, tmp_path / "run", "classification", teacher=str(teacher))
    data = with_teacher(config, prepare_data(config, quiet=True))
    form, texts = data.task.form, [example.text for example in data.train.examples[:5]]
    said = Predictor.load(teacher).predict([{"text": text} for text in texts])
    for feature, answer in zip(data.train.features, said, strict=False):
        assert feature.teacher is not None
        assert form.labels[int(np.argmax(feature.teacher))] == answer["label"]


def test_text_without_labels_gets_the_teachers(start: Path, teacher: Path, tmp_path: Path) -> None:
    rows = [{"message": f"Hello, the battery {number} fell apart."} for number in range(9)]
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = small_finetuning(
        start, tmp_path / "run", "classification", teacher=str(teacher),
        teacher_text=tmp_path / "more.jsonl", teacher_weight=1.0,
    )  # fmt: skip
    plain = prepare_data(config, quiet=True)
    data = with_teacher(config, plain)
    assert len(data.train.examples) == len(plain.train.examples) + len(rows)
    assert all(feature.teacher is not None for feature in data.train.features)
    assert [data.train.examples[f.example].text for f in data.train.features[-9:]] == [row["message"] for row in rows]
    assert finetune(config).train_examples == len(data.train.examples)


def test_a_teacher_of_other_labels_is_one_line(
    start: Path, teacher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (EXAMPLES / "classification.toml").read_text().replace("repair", "mending")
    (tmp_path / "task.toml").write_text(text)
    for name in ("tickets_train.csv", "tickets_dev.csv"):
        other = (EXAMPLES / name).read_text().replace("repair", "mending")
        (tmp_path / name).write_text(other)
    with pytest.raises(SystemExit) as status:
        main(["finetune", str(tmp_path / "task.toml"), "--model", str(start), "--out",
              str(tmp_path / "run"), "--teacher", str(teacher)])  # fmt: skip
    assert status.value.code == 2
    assert "are not those of" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "line"), [("regression", "fine-tuned on"), ("span_extraction", "not for")])
def test_a_teacher_of_another_task_is_refused(start: Path, teacher: Path, tmp_path: Path, kind: str, line: str) -> None:
    config = small_finetuning(start, tmp_path / "run", kind, teacher=str(teacher))
    with pytest.raises((ConfigError, InputError), match=line):
        finetune(config)


def vectors_of(texts: list[str], path: Path) -> None:
    drawn = np.random.default_rng(0).normal(size=(len(texts), 48)).tolist()
    rows = ({"text": text, "embedding": v} for text, v in zip(texts, drawn, strict=True))
    write_vectors(path, rows, 48)


def test_vectors_of_another_size_are_learned_from_a_file(start: Path, tmp_path: Path) -> None:
    rows = [row for _, row in read_rows(EXAMPLES / "questions_train.csv")]
    texts = [str(row[name]) for row in rows for name in ("question", "article")]
    vectors_of(texts, tmp_path / "v.parquet")
    config = small_finetuning(start, tmp_path / "run", "similarity", teacher=str(tmp_path / "v.parquet"))
    data = with_teacher(config, prepare_data(config, quiet=True))
    width = load_config(start).hidden_size
    assert {feature.teacher.shape for feature in data.train.features} == {(2, width)}  # type: ignore[union-attr]
    assert finetune(config).steps == config.steps
    vectors_of(texts[:-1], tmp_path / "short.parquet")
    with pytest.raises(DataError, match="no vector for 1 of 120 texts"):
        finetune(replace(config, out=tmp_path / "b", teacher=str(tmp_path / "short.parquet")))


def test_a_model_teaches_vectors_too(start: Path, tmp_path: Path) -> None:
    config = small_finetuning(start, tmp_path / "run", "similarity", teacher=str(start))
    data = with_teacher(config, prepare_data(config, quiet=True))
    example, feature = data.train.examples[0], data.train.features[0]
    wanted = Predictor.load(start).embed([example.text, str(example.text_pair)])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert feature.teacher is not None
    assert np.abs(feature.teacher - wanted).max() < 1e-5
