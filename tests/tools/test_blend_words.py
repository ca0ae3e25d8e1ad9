"""A word table drawn towards a sentence encoder: words turn, their lengths, specials and other weights stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tiny_models import random_model_folder

pytest.importorskip("sentence_transformers")
transformers = pytest.importorskip("transformers")
from blend_words import __file__ as script  # noqa: E402
from blend_words import blended, directions, known_words  # noqa: E402

from litebert.interop.hf import load_model  # noqa: E402
from litebert.text.tokenizer import Tokenizer  # noqa: E402


def _draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_no_share_changes_nothing() -> None:
    own = _draw(0, 50, 8)
    np.testing.assert_allclose(blended(own, _draw(1, 50, 20), 0.0), own, atol=1e-5)


def test_the_whole_share_has_the_cosines_of_what_is_told_and_the_lengths_of_its_own() -> None:
    own, told = _draw(0, 50, 8), directions(_draw(1, 50, 8))  # as many directions: none is cut
    mixed = blended(own, told, 1.0) - own.mean(0)
    np.testing.assert_allclose(np.linalg.norm(mixed, axis=1), np.linalg.norm(own - own.mean(0), axis=1), rtol=1e-4)
    wanted = directions(told)
    turned = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    np.testing.assert_allclose(turned @ turned.T, wanted @ wanted.T, atol=1e-4)


def test_what_is_told_is_turned_first() -> None:
    own = _draw(0, 50, 8)
    turn = np.linalg.qr(_draw(1, 8, 8))[0]
    np.testing.assert_allclose(blended(own, own @ turn, 0.5), own, atol=1e-4)


def test_an_encoder_may_have_fewer_directions_than_the_table() -> None:
    assert blended(_draw(0, 50, 8), _draw(1, 50, 3), 0.5).shape == (50, 8)


def test_only_words_change(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    model = random_model_folder(tmp_path / "model", "pretraining", tiny_tokenizer_dir)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcde")]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    shape = {"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    encoder = transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **shape))
    encoder.save_pretrained(tmp_path / "encoder")
    transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "encoder")
    command = [sys.executable, script, str(model), str(tmp_path / "encoder"), str(tmp_path / "out")]
    subprocess.run(command, check=True, capture_output=True)
    before, after = (load_model(folder, "pretraining").state_dict() for folder in (model, tmp_path / "out"))
    changed = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    assert changed == {"encoder.embeddings.word.weight"}
    tokenizer = Tokenizer.load(tmp_path / "out")
    table, special = after["encoder.embeddings.word.weight"], list(tokenizer.special_ids)
    assert torch.equal(table[special], before["encoder.embeddings.word.weight"][special])
    assert not set(special) & {number for number, _, _ in known_words(tokenizer)}
