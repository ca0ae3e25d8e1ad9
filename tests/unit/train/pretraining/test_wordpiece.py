"""A model with a vocabulary of others goes the whole way: shards, training, answers, export."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.prepare import prepare
from litebert.interop.onnx.export import export_onnx
from litebert.predict.predictor import Predictor
from litebert.text.tokenizer import Tokenizer
from litebert.train.pretraining.engine import pretrain
from small_run import small_config

WORDS = ["der", "große", "garten", "liegt", "hinter", "dem", "haus", "und", "blüht", "spät"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS, "##n", "##s", "##e"]


@pytest.fixture
def wordpiece(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    settings = {"do_lower_case": True, "strip_accents": False, "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.slow
def test_from_vocab_txt_to_answers(wordpiece: Path, tmp_path: Path) -> None:
    sentence = " ".join(WORDS).capitalize() + ". "
    documents = [sentence * 3 + f"Garten {WORDS[n % 10]}s {WORDS[n % 7]}." for n in range(60)]
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(documents), encoding="utf-8")
    shards = tmp_path / "shards"
    prepare(PrepareConfig((text,), wordpiece, shards, workers=1, dev_fraction=0.2, language="de"))
    first = pretrain(small_config(shards, tmp_path / "a", steps=2), quiet=True)
    again = small_config(shards, tmp_path / "b", steps=2, init_from=str(first.model))
    again = replace(again, model=replace(again.model, preset=None))  # type: ignore[arg-type]
    model = pretrain(again, quiet=True).model
    assert model is not None
    assert Tokenizer.load(model).encode("Große Häuser") == [7, 1]
    export_onnx(model, tmp_path / "onnx")
    question = "der große [MASK]n blüht."
    for folder in (model, tmp_path / "onnx"):
        (filled,) = Predictor.load(folder).fill_mask([question], top_k=len(PIECES))
        assert {candidate.token for candidate in filled.masks[0]} >= set(WORDS)
