"""Pretraining scores of a folder: the run's own figures, each corpus apart, by both rules."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from litebert.cli import run as run_command
from litebert.common.errors import CheckpointError, ConfigError, DataError
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.prepare import prepare
from litebert.train.pretraining.engine import PretrainResult, pretrain
from litebert.train.pretraining.scoring import evaluate_pretraining
from small_run import small_config


@pytest.fixture(scope="module")
def trained(tiny_shards_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    """A short run, evaluated at length 32."""
    out = tmp_path_factory.mktemp("scored") / "run"
    return pretrain(small_config(tiny_shards_dir, out), quiet=True)


@pytest.fixture(scope="module")
def apart(python_text: Path, tiny_tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other text, without a dev split."""
    folder = tmp_path_factory.mktemp("apart")
    half = python_text.read_text()[20_000:60_000]
    (folder / "text.txt").write_text(half)
    out = folder / "shards"
    prepare(PrepareConfig((folder / "text.txt",), tiny_tokenizer_dir, out, "paragraphs", dev_fraction=0, workers=1))
    return out


def test_a_folder_scores_what_its_run_said(trained: PretrainResult, tiny_shards_dir: Path) -> None:
    assert trained.model is not None
    assert trained.scores is not None
    (found,) = evaluate_pretraining(trained.model, [tiny_shards_dir], rules=["paper"], examples=32, length=32)
    assert asdict(found.scores) == pytest.approx(asdict(trained.scores))


def test_each_corpus_and_all_together_by_both_rules(
    trained: PretrainResult, tiny_shards_dir: Path, apart: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", "pretraining", "--model", str(trained.model), "--split", "all"]
    arguments += ["--data", str(tiny_shards_dir), str(apart), "--examples", "24", "--length", "32"]
    run_command([*arguments, "--json"])
    rows = json.loads(capsys.readouterr().out)
    corpora = [str(tiny_shards_dir), str(apart), "together"]
    assert [row["corpus"] for row in rows] == 2 * corpora
    assert [row["rules"] for row in rows] == ["paper"] * 3 + ["official"] * 3
    for row in rows:
        low, high = row["sop_interval"]
        assert low <= row["sop_accuracy"] <= high
        assert 0 < row["nsp_overlap_rule"] <= 1
        assert row["unigram_loss"] > 0
    run_command(arguments)
    assert "length rule" in capsys.readouterr().out


def test_text_apart_is_evaluated_and_never_trained_on(tiny_shards_dir: Path, apart: Path, tmp_path: Path) -> None:
    alone = pretrain(small_config(tiny_shards_dir, tmp_path / "a"), quiet=True)
    beside = pretrain(small_config(tiny_shards_dir, tmp_path / "b", dev_data=(apart,)), quiet=True)
    weights = [result.run / "model" / "model.safetensors" for result in (alone, beside)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert alone.scores != beside.scores
    (found,) = evaluate_pretraining(
        weights[1].parent,
        [apart],
        every_document=True,
        rules=["paper"],
        examples=32,
        length=32,
        frequencies=[tiny_shards_dir],
    )
    assert beside.scores is not None
    assert asdict(found.scores) == pytest.approx(asdict(beside.scores))


def test_changed_tokens_are_seen(trained: PretrainResult, tiny_shards_dir: Path, tmp_path: Path) -> None:
    shards = shutil.copytree(tiny_shards_dir, tmp_path / "shards")
    path = shards / "dev" / "00000.bin"
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    with pytest.raises(DataError, match=r"00000\.bin is damaged"):
        evaluate_pretraining(str(trained.model), [shards], examples=8)
    with pytest.raises(ConfigError, match="--examples 0"):
        evaluate_pretraining(str(trained.model), [shards], examples=0)


def test_refusals(trained: PretrainResult, apart: Path, tmp_path: Path) -> None:
    model = str(trained.model)
    with pytest.raises(DataError, match="no dev documents"):
        evaluate_pretraining(model, [apart])
    with pytest.raises(ConfigError, match="--choose does nothing"):
        run_command(["evaluate", "pretraining", "--model", model, "--data", "x", "--choose"])
    with pytest.raises(ConfigError, match="needs one --model"):
        run_command(["evaluate", "pretraining", "--data", "x"])
    with pytest.raises(ConfigError, match="--length does nothing"):
        run_command(["evaluate", "sst2", "--model", model, "--length", "32"])
    other = shutil.copytree(model, tmp_path / "other")
    (other / "spiece.model").unlink()
    (other / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match="has no tokenizer to compare"):
        evaluate_pretraining(other, [apart], every_document=True)
