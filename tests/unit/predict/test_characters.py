"""Loss per character: the same words whatever the vocabulary, and the sum of their pieces' loss."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from litebert.cli import main, run
from litebert.model.head_table import Head
from litebert.predict.characters import UNKNOWN_NATS, character_loss
from litebert.predict.predictor import Predictor
from litebert.text.train import TokenizerTrainConfig, train_tokenizer
from litebert.text.words import words_in
from tiny_models import TINY, random_model_folder

TEXT = "A function is a block of code which runs when it is called. " * 12


def even_model(folder: Path, tokenizer: Path, size: int) -> Predictor:
    """A model to which all pieces are equally likely."""
    import torch

    from litebert.interop.hf import build_model, save_model

    model = build_model(replace(TINY, vocab_size=size), "pretraining")
    with torch.no_grad():
        for name in ("encoder.embeddings.word.weight", "mlm.bias"):
            model.get_parameter(name).zero_()
    save_model(model, folder, tokenizer)
    return Predictor.load(folder)


def test_words_have_no_white_space_and_end_at_punctuation_where_there_is_none() -> None:
    def words(text: str) -> list[str]:
        return [text[start:end] for start, end in words_in(text)]

    assert words(" u.s. don't\n (1998),") == ["u.s.", "don't", "(1998),"]
    assert words("これは本です。はい") == ["これは本です", "。", "はい"]
    assert words("") == []


def test_an_even_model_pays_for_every_piece(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    predictor = even_model(tmp_path / "even", tiny_tokenizer_dir, 1000)
    found = character_loss(predictor, [TEXT])
    assert found is not None
    nats = found.loss_per_character * found.hidden_characters
    pieces = nats / math.log(1000)
    assert pieces == pytest.approx(round(pieces), abs=1e-4)
    assert round(pieces) >= found.hidden_words


def test_two_vocabularies_hide_the_same_words(tmp_path: Path, tiny_tokenizer_dir: Path, python_text: Path) -> None:
    small = tmp_path / "small"
    train_tokenizer(TokenizerTrainConfig((python_text,), small, vocab_size=400))
    first = character_loss(even_model(tmp_path / "a", tiny_tokenizer_dir, 1000), [TEXT, TEXT[9:]])
    second = character_loss(even_model(tmp_path / "b", small, 400), [TEXT, TEXT[9:]])
    assert first is not None
    assert second is not None
    assert first.hidden_words == second.hidden_words
    assert first.hidden_characters == second.hidden_characters
    assert first.pieces_per_word < second.pieces_per_word


def test_rows_longer_than_the_model_are_cut_and_all_words_count(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    predictor = even_model(tmp_path / "even", tiny_tokenizer_dir, 1000)
    assert predictor.max_length == 64
    text = " ".join(["xqzjvkwpy"] * 40)
    found = character_loss(predictor, [text])
    assert found is not None
    ids = predictor.tokenizer.encode("xqzjvkwpy")
    per_word = len(ids) * math.log(1000) / 9
    assert found.loss_per_character == pytest.approx(per_word, rel=1e-5)


def test_unknown_characters_are_not_free(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    predictor = even_model(tmp_path / "even", tiny_tokenizer_dir, 1000)
    found = character_loss(predictor, ["한국어 문장은 띄어쓰기를"])
    assert found is not None
    assert found.unknown_share > 0
    assert found.loss_per_character > UNKNOWN_NATS
    assert character_loss(predictor, ["", " \n"]) is None


def test_the_command_prints_it(
    tmp_path: Path, model_folder: Callable[[Head], Path], tiny_tokenizer_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "held.txt").write_text(TEXT)
    model = str(random_model_folder(tmp_path / "m", "masked_lm", tiny_tokenizer_dir))
    arguments = ["evaluate", "pretraining", "--model", model, "--text", str(tmp_path / "held.txt")]
    run([*arguments, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert np.isfinite(found["loss_per_character"])
    run(arguments)
    assert "nats per character" in capsys.readouterr().out
    arguments[3] = str(model_folder("classification"))
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
