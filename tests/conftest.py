"""Fixtures that many tests share: a tiny tokenizer, tiny shards, the optional reference data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from litebert.text.spiece import SentencePieceTokenizer

# The same examples in every run, however slow the machine.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

REPOSITORY = Path(__file__).resolve().parent.parent
EXACTNESS_FOLDER = REPOSITORY / "build" / "exactness"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with reference outputs and data sets, which users of the project do not have."""
    folder = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "fixtures").is_dir():
        pytest.skip(f"no reference data at {folder}: set LITEBERT_SHARED to its folder (fixtures/, data/)")
    return folder


@pytest.fixture(scope="session")
def python_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small text file (paragraphs layout) cut from CPython's documentation topics."""
    from litebert.demo.python_text import topics

    path = tmp_path_factory.mktemp("text") / "topics.txt"
    path.write_text("\n\n".join("\n".join(document) for _, document in topics()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_tokenizer_dir(tmp_path_factory: pytest.TempPathFactory, python_text: Path) -> Path:
    """A tokenizer folder with 1,000 pieces."""
    from litebert.text.train import TokenizerTrainConfig, train_tokenizer

    folder = tmp_path_factory.mktemp("tokenizer") / "tiny"
    train_tokenizer(TokenizerTrainConfig(input=(python_text,), out=folder, vocab_size=1000))
    return folder


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_tokenizer_dir: Path) -> SentencePieceTokenizer:
    """The tokenizer of ``tiny_tokenizer_dir``, loaded."""
    from litebert.text.spiece import SentencePieceTokenizer
    from litebert.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(tiny_tokenizer_dir)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


@pytest.fixture(scope="session")
def tiny_shards_dir(tmp_path_factory: pytest.TempPathFactory, python_text: Path, tiny_tokenizer_dir: Path) -> Path:
    """Token shards of the documentation topics, with a dev split."""
    from litebert.data.corpus.config import PrepareConfig
    from litebert.data.corpus.prepare import prepare

    folder = tmp_path_factory.mktemp("shards") / "tiny"
    prepare(
        PrepareConfig(
            input=(python_text,),
            tokenizer=tiny_tokenizer_dir,
            out=folder,
            layout="paragraphs",
            workers=1,
            dev_fraction=0.2,
        )
    )
    return folder


@pytest.fixture(scope="session")
def record_exactness() -> Callable[[str, float, str], None]:
    """Collects the largest difference to each reference; `docs/exactness.md` is made of them."""

    def record(reference: str, max_difference: float, command: str) -> None:
        EXACTNESS_FOLDER.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() else "-" for c in reference.lower())[:80]
        row = {"reference": reference, "max_difference": max_difference, "command": command}
        (EXACTNESS_FOLDER / f"{name}.json").write_text(json.dumps(row), encoding="utf-8")

    return record
