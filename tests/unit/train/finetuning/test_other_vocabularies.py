"""A folder with a WordPiece vocabulary is fine-tuned, asked and served like any other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from litebert.cli import run
from litebert.interop.hf import build_model, save_model
from litebert.serve.app import create_app
from litebert.serve.config import ServeConfig
from litebert.serve.service import Service
from litebert.text.tokenizer import Tokenizer
from tiny_models import TINY

GOOD, BAD = ["schön", "größer", "warm"], ["kalt", "müde", "leer"]
PIECES = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "das", "haus", "ist", "##er", "."), *(*GOOD, *BAD)]


@pytest.fixture
def wordpiece_model(tmp_path: Path) -> Path:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    settings = {"do_lower_case": True, "strip_accents": False}
    (theirs / "tokenizer_config.json").write_text(json.dumps(settings))
    model = build_model(replace(TINY, vocab_size=len(PIECES)), "encoder")
    save_model(model, tmp_path / "model", theirs)
    return tmp_path / "model"


def test_finetune_predict_and_serve(wordpiece_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tails = ("", ".", " .", "er", " Haus", " ist", " das Haus")
    rows = [f"Das Haus ist {word}{tail},gut" for word in GOOD for tail in tails]
    rows += [f"Das Haus ist {word}{tail},übel" for word in BAD for tail in tails]
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    out = tmp_path / "run"
    run(["finetune", str(table), "--model", str(wordpiece_model), "--out", str(out), "--steps", "4",
         "--batch-size", "8", "--threads", "1"])  # fmt: skip
    tuned = out / "model"
    assert Tokenizer.load(tuned).encode("Größer, schöner") == [11, 1, 10, 8]
    capsys.readouterr()
    asked = tmp_path / "asked.jsonl"
    asked.write_text(json.dumps({"text": "Das Haus ist schöner."}) + "\n", encoding="utf-8")
    run(["predict", "--model", str(tuned), "--input", str(asked)])
    answer = json.loads(capsys.readouterr().out)
    assert answer["label"] in ("gut", "übel")
    config = ServeConfig(model=(tuned, wordpiece_model), threads=1)
    with TestClient(create_app(Service.load(config), config)) as client:
        served = client.post("/classify", json={"text": "Das Haus ist schöner."}).json()
        pieces = client.post("/tokenize", json={"text": "Größer."})
    assert answer["label"] in json.dumps(served, ensure_ascii=False)
    assert "größer" in json.dumps(pieces.json(), ensure_ascii=False)
