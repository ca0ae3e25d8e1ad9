"""`litebert adapt`: every kind of vocabulary, sources, kills at any stage, refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import litebert.train.adapting.engine as engine
from litebert.cli import main, run
from litebert.data.corpus.parts import held_out_texts
from litebert.interop.folder import load_config
from litebert.predict.predictor import Predictor
from litebert.text.tokenizer import Tokenizer
from litebert.train.adapting.config import AdaptConfig
from small_run import assert_bitwise_equal, weights
from tiny_models import TINY, random_model_folder

HALF = ["--steps", "4", "--freeze-share", "0.5"]
RECIPE = """
steps = 100
batch_size = 4

[examples]
length = 32
micro_batch_size = 4

[optimizer]
name = "adamw"
lr = 1e-3

[evaluation]
every_steps = 0
examples = 8
final_examples = 8

[checkpoint]
every_steps = 1
"""


@pytest.fixture
def arguments(tmp_path: Path, python_text: Path, tiny_tokenizer_dir: Path) -> list[str]:
    """What every adaptation here has in common."""
    source = random_model_folder(tmp_path / "old", "pretraining", tiny_tokenizer_dir)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    found = ["adapt", "--model", str(source), "--input", str(python_text)]
    found += ["--recipe", str(tmp_path / "recipe.toml"), "--dev-fraction", "0.2"]
    return [*found, "--threads", "1"]


def figures(out: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads((out / "adapted.json").read_text())
    return found


def test_a_new_vocabulary(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    run([*arguments, "--out", str(out), "--vocab-size", "600", *HALF])
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == [
        "before", "start", "after", "model",
    ]  # fmt: skip
    found = figures(out)
    assert sum(found["pieces"].values()) == 600
    assert found["before"]["hidden_words"] == found["after"]["hidden_words"] > 20
    assert found["before"]["pieces_per_word"] < found["after"]["pieces_per_word"]
    assert found["start"]["pieces_per_word"] == found["after"]["pieces_per_word"]
    assert load_config(out / "model").vocab_size == 600
    card = (out / "model" / "README.md").read_text()
    assert "# run/model" in card
    assert "## Adaptation" in card
    assert f"| after | {found['after']['loss_per_character']:.4f} nats per character" in card
    (filled,) = Predictor.load(out / "model").fill_mask(["the [MASK] of a class."])
    assert filled.masks[0]
    assert "<svg" in (out / "pretraining" / "report.html").read_text()
    texts = list(held_out_texts(out / "shards"))
    dev = json.loads((out / "shards" / "manifest.json").read_text())["splits"]["dev"]
    assert len(texts) == dev["documents"]


def test_killed_at_any_stage_it_ends_with_the_same_bytes(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = [*arguments, "--add-pieces", "50", *HALF]
    run([*common, "--out", str(tmp_path / "straight")])
    broken = [*common, "--out", str(tmp_path / "broken"), "--resume", "auto"]

    class Killed(BaseException):
        """As a signal would."""

    def killed(*given: object, **named: object) -> None:
        raise Killed

    stages = ("_make_vocabulary", "prepare", "write_start", "pretrain", "_measured", "_write_model")
    for stage in stages:
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(engine, stage, killed)
            run(broken)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        # In the middle of the training, after two checkpoints.
        patch.setattr("litebert.train.pretraining.engine.write_results", killed)
        run(broken)
    run(broken)
    for stage in ("start", "model"):
        ours, theirs = tmp_path / "broken" / stage, tmp_path / "straight" / stage
        for file in theirs.iterdir():
            same = (ours / file.name).read_bytes() == file.read_bytes()
            assert same or file.name == "README.md", file
    assert figures(tmp_path / "broken") == figures(tmp_path / "straight")


def test_an_old_vocabulary_with_more_pieces(arguments: list[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    run([*arguments, "--out", str(out), "--add-pieces", "80", "--steps", "1"])
    found = figures(out)
    assert load_config(out / "model").vocab_size == 1080
    assert found["pieces"] == {"copied": 1000, "unknown": 0, "averaged": 80}
    assert found["after"]["pieces_per_word"] < found["before"]["pieces_per_word"]


def test_the_old_vocabulary_is_continued_pretraining(arguments: list[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    run([*arguments, "--out", str(out), "--keep-vocabulary", "--steps", "2"])
    assert not (out / "start").exists()
    found = figures(out)
    assert found["before"] == found["start"]
    settings = json.loads((out / "pretraining" / "manifest.json").read_text())["config"]
    assert settings["curriculum"]["trainable"] == []
    recipe = tmp_path / "recipe.toml"
    again = ["pretrain", "--config", str(recipe), "--data", str(out / "shards"), "--threads", "1"]
    again += ["--init-from", str(tmp_path / "old"), "--out", str(tmp_path / "same")]
    run([*again, "--steps", "2"])
    assert_bitwise_equal(weights(out), weights(tmp_path / "same"))


def test_from_wordpiece_and_from_a_model_without_heads(arguments: list[str], tmp_path: Path) -> None:
    from dataclasses import replace

    from litebert.interop.hf import build_model, save_model

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "of", "a", "class", "##es", "is"]
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "vocab.txt").write_text("\n".join(words))
    (theirs / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    save_model(build_model(replace(TINY, vocab_size=11), "encoder"), tmp_path / "model", theirs)
    arguments[2] = str(tmp_path / "model")
    run([*arguments, "--out", str(tmp_path / "run"), "--vocab-size", "500", "--steps", "1"])
    found = figures(tmp_path / "run")
    assert "before" not in found  # it predicts no words
    assert found["after"]["loss_per_character"] > 0
    tokenizer = Tokenizer.load(tmp_path / "run" / "model")
    assert tokenizer.settings.normalization == "keep-accents"
    assert tokenizer.vocab_size == 500


def test_a_plan_writes_nothing(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run([*arguments, "--out", str(tmp_path / "run"), "--dry-run", "--steps", "4"])
    text = capsys.readouterr().out
    assert "1,000 pieces -> 1,000 of the text's own" in text
    assert "steps 4; 4 x 32 tokens a step, words alone for 10%" in text
    assert not (tmp_path / "run").exists()


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("litebert: error: ")
    return error[-1]


def test_refusals_are_one_line(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "run")]
    both = [*arguments, *out, "--keep-vocabulary", "--add-pieces", "5"]
    assert "--add-pieces and --keep-vocabulary contradict" in refusal(both, capsys)
    assert "--freeze-share is 1.5" in refusal([*arguments, *out, "--freeze-share", "1.5"], capsys)
    assert "not a duration" in refusal([*arguments, *out, "--budget", "soon"], capsys)
    wrong = [*arguments, *out]
    wrong[wrong.index("--recipe") + 1] = "smal"
    assert "no pretrain recipe 'smal'" in refusal(wrong, capsys)
    large = [*arguments, *out, "--vocab-size", "900000"]
    assert "too small for 900,000 pieces" in refusal(large, capsys)
    inside = [*arguments, "--out", str(tmp_path / "text" / "run")]
    inside[4] = str(tmp_path / "text")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("words")
    assert "must not be overwritten" in refusal(inside, capsys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        assert "adapt is for one process" in refusal([*arguments, *out], capsys)
    nowhere = [*arguments, *out]
    nowhere[4] = str(tmp_path / "nothing")
    assert "does not exist" in refusal(nowhere, capsys)
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    assert "thesis.txt" in refusal([*arguments, *out], capsys)


def test_another_call_into_the_same_folder(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run" / "tokenizer").mkdir(parents=True)
    config = AdaptConfig((Path("text"),), tmp_path / "run", vocab_size=600)
    from litebert.common.config import to_dict

    (tmp_path / "run" / "adapt.json").write_text(json.dumps(to_dict(config)))
    again = [*arguments, "--out", str(tmp_path / "run")]
    assert "already holds an adaptation" in refusal(again, capsys)
    assert "is of a run with" in refusal([*again, "--resume", "auto"], capsys)
