"""Training on texts to compare: the batch is one, whatever its parts; equal texts do not repel."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from litebert.common.errors import ConfigError
from litebert.interop.hf import load_model, save_model
from litebert.interop.pooling import VectorRule
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.similarity import SentenceEncoder, in_batch_loss
from litebert.predict.evaluate import evaluate_models
from litebert.predict.predictor import Predictor
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import find_task
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.engine import finetune
from litebert.train.finetuning.order import join
from litebert.train.finetuning.setup import TaskLoss
from small_finetuning import EXAMPLES, STOPPED_STEP, signal_at, small_finetuning

CPU = torch.device("cpu")
TINY = ModelConfig(
    vocab_size=1000, embedding_size=16, hidden_size=32, num_layers=2, num_heads=2,
    max_positions=128, initializer_range=0.05, hidden_dropout=0.1, attention_dropout=0.1,
)  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("start") / "model"
    save_model(Encoder(TINY, generator=torch.Generator().manual_seed(0)), folder,
               tiny_tokenizer_dir)  # fmt: skip
    return folder


def gradients(model: SentenceEncoder, features, max_tokens: int) -> dict[str, torch.Tensor]:  # type: ignore[no-untyped-def]
    model.zero_grad()
    torch.manual_seed(5)
    loss = TaskLoss(model, CPU, "float32", max_tokens)(join(features, 0, max_tokens), 1, None)
    torch.autograd.backward(loss)
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def test_a_batch_in_parts_is_one_batch(tiny_tokenizer: Tokenizer) -> None:
    task = find_task(str(EXAMPLES / "similarity.toml"))
    examples = task.read(EXAMPLES, "train", RowProblems())[:12]
    features = task.form.features(examples, tiny_tokenizer, 64)
    model = SentenceEncoder(Encoder(replace(TINY, hidden_dropout=0.0, attention_dropout=0.0)))
    whole, parts = (gradients(model.train(), features, size) for size in (10_000, 100))
    assert len(join(features, 0, 100).padded) > len(join(features, 0, 10_000).padded)
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, atol=1e-5, rtol=1e-4)


def test_what_is_computed_again_has_the_same_dropout(tiny_tokenizer: Tokenizer) -> None:
    task = find_task(str(EXAMPLES / "similarity.toml"))
    features = task.form.features(task.read(EXAMPLES, "train", RowProblems())[:6], tiny_tokenizer, 64)
    batch = join(features, 0, 150)
    model = SentenceEncoder(Encoder(TINY)).train()
    found = []
    for max_tokens in (None, 1):
        model.zero_grad()
        torch.manual_seed(5)
        torch.autograd.backward(TaskLoss(model, CPU, "float32", max_tokens)(batch, 1, None))
        found.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert torch.equal(*found)


def test_equal_texts_are_right_or_wrong_together() -> None:
    drawn = torch.nn.functional.normalize(torch.randn(4, 2, 8), dim=-1)
    drawn[1, 1] = drawn[0, 1]  # two questions about one paragraph
    numbers = torch.tensor([[0, 9], [1, 9], [2, 5], [3, 6]])
    apart = in_batch_loss(drawn, torch.arange(8).view(4, 2), 0.05, symmetric=True)
    together = in_batch_loss(drawn, numbers, 0.05, symmetric=True)
    assert together < apart
    assert torch.isfinite(together)


def test_the_folder_is_an_encoder_that_records_its_pooling(start: Path, tmp_path: Path) -> None:
    config = small_finetuning(start, tmp_path / "run", "similarity", pooling="cls")
    result = finetune(config)
    folder = tmp_path / "run" / "model"
    assert VectorRule.read(folder) == VectorRule("cls", normalize=True)
    assert isinstance(load_model(folder), Encoder)
    (evaluation,) = evaluate_models(config.task, [str(folder)], None)
    assert evaluation.scores == pytest.approx(result.scores, abs=1e-6)
    predictor = Predictor.load(folder)
    pair = {"text": "My fan is broken.", "text_pair": "A fan is repaired."}
    first, second = predictor.embed(list(pair.values()))
    assert np.linalg.norm(first) == pytest.approx(1, abs=1e-5)
    (answer,) = predictor.predict([{"text": "My fan is broken.", "text_pair": "A fan is repaired."}])
    assert answer["similarity"] == pytest.approx(float(first @ second), abs=1e-5)


def test_a_resumed_run_is_the_same_run(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = small_finetuning(start, tmp_path / "whole", "similarity", dropout=0.1)
    finetune(whole)
    parts = replace(whole, out=tmp_path / "parts", resume="auto")
    with monkeypatch.context() as patch:
        signal_at(patch, STOPPED_STEP, signal.SIGTERM)
        assert finetune(parts).interrupted_by == signal.SIGTERM
    finetune(parts)
    file = "model/model.safetensors"
    assert (whole.out / file).read_bytes() == (parts.out / file).read_bytes()


def test_bare_sentences_need_dropout(start: Path, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"a": f"text {i}"}) + "\n" for i in range(9)))
    (tmp_path / "d.csv").write_text("a,b,s\none,one,5\none,two,0\ntwo,three,1\n")
    (tmp_path / "task.toml").write_text(
        'name = "bare"\nkind = "similarity"\nscore_range = [0, 5]\n'
        '[files]\ntrain = "t.jsonl"\ndev = "d.csv"\n[columns]\ntext = "a"\n'
        '[dev_columns]\ntext = "a"\ntext_pair = "b"\nlabel = "s"\n'
    )
    task = str(tmp_path / "task.toml")
    config = small_finetuning(start, tmp_path / "run", "similarity", task=task, steps=2)
    result = finetune(config)
    assert result.metric == "spearman"
    with pytest.raises(ConfigError, match="--dropout"):
        finetune(replace(config, out=tmp_path / "no", dropout=0.0))
