"""The first 20 losses of three tiny pretrainings, as they were when the file beside was written.

Any change of the numbers (masks, pairs, order, model, loss, optimizer, schedule) is seen here, on
any processor: weights and text are drawn by numpy. If a change is meant, write the file anew with
``LITEBERT_WRITE_GOLDEN=1 pytest tests/golden`` and say why in the commit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from litebert.data.batches.example import ExampleConfig, Vocabulary
from litebert.data.batches.loader import Loader
from litebert.data.corpus.shards import ShardSet
from litebert.interop.hf import build_model
from litebert.model.config import ModelConfig
from litebert.optim.build import build_optimizers, set_learning_rate
from litebert.optim.config import OptimizerConfig
from litebert.optim.schedule import ScheduleConfig, factor
from litebert.train.loop import update
from litebert.train.pretraining.config import Objective
from litebert.train.pretraining.curriculum import Stage
from litebert.train.pretraining.objective import PretrainingLoss, counts_of
from small_shards import write_documents

GOLDEN = Path(__file__).with_name("losses.json")
STEPS, VOCABULARY = 20, 300

SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_heads": 4, "intermediate_size": 64,
    "num_layers": 3, "max_positions": 64, "hidden_dropout": 0.0, "attention_dropout": 0.0,
}  # fmt: skip
MODELS = {
    "albert": ModelConfig(**SHAPE, embedding_size=16, sharing="all"),
    "bert": ModelConfig(**SHAPE, embedding_size=32, sharing="none"),
    "ffn": ModelConfig(**SHAPE, embedding_size=16, sharing="ffn"),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ShardSet:
    """Documents whose words come with Zipf's frequencies; each sentence tends to go on counting."""
    generator = np.random.default_rng(12)
    documents = []
    for _ in range(30):
        start = int(generator.integers(5, 200))
        document = []
        for number in range(int(generator.integers(6, 20))):
            size = int(generator.integers(4, 14))
            words = 5 + np.minimum(generator.zipf(1.3, size), VOCABULARY - 6)
            document.append([5 + (start + number) % 290, *words.tolist()])
        documents.append(document)
    return write_documents(tmp_path_factory.mktemp("golden"), documents, VOCABULARY)


def first_losses(corpus: ShardSet, config: ModelConfig, dtype: torch.dtype) -> list[list[float]]:
    """Loss at the masks and of the sentence order, for each step."""
    model = build_model(config, "pretraining").to(dtype).train()
    draw = np.random.default_rng(7)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            drawn = torch.from_numpy(draw.standard_normal(tuple(parameter.shape)) * 0.05)
            parameter.copy_(drawn if parameter.dim() > 1 else 1.0 + drawn)
    named = list(model.named_parameters())
    optimizers = build_optimizers(named, OptimizerConfig(name="lamb"), 0.02)
    schedule = ScheduleConfig("official", warmup_steps=4)
    loader = Loader(
        [(corpus, 1.0)],
        ExampleConfig(length=48, micro_batch_size=8, stretch_tokens=500, buffer_stretches=4),
        seed=3,
        vocabulary=Vocabulary(np.arange(VOCABULARY) % 3 > 0),
    )
    stage = Stage(config.num_layers, length=48, batch_size=8, micro_batch_size=8, mask_rate=0.15)
    losses = []
    for step in range(STEPS):
        set_learning_rate(optimizers, factor(schedule, step / STEPS, STEPS))
        batch = loader.batch(step)
        predictions, pairs, _ = counts_of([batch])
        loss_of = PretrainingLoss(Objective(), predictions, pairs, stage, torch.device("cpu"))
        loss, sums = loss_of(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        update([p for _, p in named], optimizers, 1.0, loss=float(loss.detach()))
        losses.append([float(sums[0]) / predictions, float(sums[2]) / pairs])
    return losses


@pytest.mark.parametrize("name", MODELS)
def test_first_losses(name: str, corpus: ShardSet) -> None:
    found = first_losses(corpus, MODELS[name], torch.float64)
    if os.environ.get("LITEBERT_WRITE_GOLDEN"):
        golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        golden[name] = found
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
    golden = json.loads(GOLDEN.read_text())[name]
    assert len(golden) == STEPS
    assert golden[0] != golden[-1]
    np.testing.assert_allclose(found, golden, rtol=0, atol=1e-8)
    single = first_losses(corpus, MODELS[name], torch.float32)
    np.testing.assert_allclose(single, golden, rtol=0, atol=1e-4)
