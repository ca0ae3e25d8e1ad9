"""Words hidden while a task is learned: which, how many, and that a resumed run hides the same."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from litebert.common.errors import ConfigError
from litebert.model.config import ModelConfig
from litebert.model.heads import SequenceClassifier
from litebert.predict.inputs import pad
from litebert.tasks.base import Feature, Row
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.engine import finetune
from litebert.train.finetuning.setup import TaskLoss, WordDropout
from small_finetuning import STOPPED_STEP, signal_at, small_finetuning

CPU = torch.device("cpu")


def test_words_are_hidden_and_separators_are_not(tiny_tokenizer: Tokenizer) -> None:
    specials = tiny_tokenizer.special_ids
    ids_RS = torch.tensor([[*specials, 7, 8, 9]]).repeat(2000, 1)
    torch.manual_seed(0)
    hidden_RS = WordDropout(0.3, tiny_tokenizer)(ids_RS)
    changed_RS = hidden_RS != ids_RS
    assert not changed_RS[:, : len(specials)].any()
    assert set(hidden_RS[changed_RS].tolist()) == {tiny_tokenizer.mask_id}
    assert changed_RS[:, len(specials) :].float().mean().item() == pytest.approx(0.3, abs=0.02)
    torch.manual_seed(0)
    torch.testing.assert_close(WordDropout(0.3, tiny_tokenizer)(ids_RS), hidden_RS)


def test_the_loss_is_that_of_the_texts_with_words_hidden(tiny_tokenizer: Tokenizer) -> None:
    shape = ModelConfig(vocab_size=tiny_tokenizer.vocab_size, hidden_size=64, num_layers=2, hidden_dropout=0.0)
    model = SequenceClassifier(replace(shape, attention_dropout=0.0, classifier_dropout=0.0)).train()
    features = [Feature(0, (Row(np.array([2, 7, 8, 9, 3], np.int32), 5),), target=np.asarray(n % 2)) for n in range(4)]
    batch, hide = pad(features, tiny_tokenizer.pad_id), WordDropout(0.5, tiny_tokenizer)
    torch.manual_seed(3)
    ids_RS = hide(torch.from_numpy(batch.input_ids))
    by_hand = torch.nn.functional.cross_entropy(model(ids_RS).logits, torch.tensor([0, 1, 0, 1]))
    torch.manual_seed(3)
    torch.testing.assert_close(TaskLoss(model, CPU, "float32", word_dropout=hide)(batch, 4, None), by_hand)


def test_a_resumed_run_hides_the_same_words(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    pretrained = model_folder("pretraining")
    whole = small_finetuning(pretrained, tmp_path / "whole", "classification", word_dropout=0.3)
    finetune(whole)
    lines = map(json.loads, (whole.out / "metrics.jsonl").read_text().splitlines())
    assert next(line["word_dropout"] for line in lines if line.get("event") == "recipe") == 0.3
    parted = replace(whole, out=tmp_path / "parted", resume="auto")
    with pytest.MonkeyPatch.context() as patch:
        signal_at(patch, STOPPED_STEP, signal.SIGTERM)
        assert finetune(parted).interrupted_by == signal.SIGTERM
    finetune(parted)
    weights = [load_file(run.out / "model" / "model.safetensors") for run in (whole, parted)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_all_words_cannot_be_hidden(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="word_dropout"):
        small_finetuning(model_folder("pretraining"), tmp_path, "classification", word_dropout=1.0)
