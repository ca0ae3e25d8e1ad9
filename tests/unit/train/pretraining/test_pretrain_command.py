"""`litebert pretrain`: a run from the command line, its estimate, its refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from litebert.cli import main, run
from small_run import taught

RECIPE = """
batch_size = 4
workers = 0
device = "cpu"

[model]
preset = "albert-tiny"
hidden_size = 64
embedding_size = 32

[examples]
length = 32
micro_batch_size = 4

[curriculum]
layers = [[0.0, 1], [0.5, 2]]

[optimizer]
name = "adamw"

[evaluation]
every_steps = 0
final_examples = 16

[checkpoint]
every_steps = 0
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def test_a_run_with_its_report(
    recipe: Path, tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    arguments = ["pretrain", "--config", str(recipe), "--data", str(tiny_shards_dir)]
    arguments += ["--out", str(out), "--steps", "3", "--seed", "7", "--json"]
    run(arguments)
    result = json.loads(capsys.readouterr().out)
    assert result["step"] == 3
    assert result["scores"]["sop_pairs"] >= 16
    assert "<svg" in (out / "report.html").read_text()
    config = json.loads((out / "manifest.json").read_text())["config"]
    assert (config["seed"], config["batch_size"]) == (7, 4)
    assert config["curriculum"]["layers"] == [[0.0, 1.0], [0.5, 2.0]]
    card = (out / "model" / "README.md").read_text()
    data = f"| data | `{tiny_shards_dir.name}`: "
    tokens = f"| tokens seen | {result['tokens']:,} |"
    loss = f"| dev loss | {result['scores']['mlm_loss']:.3f} nats"
    for line in ("language:\n- en\n", data, "| language | en |", "| steps | 3 |", tokens, loss):
        assert line in card
    main(["export", "checkpoint", str(out), str(tmp_path / "last"), "--step", "3"])
    assert "| weights of step | 3 |" in (tmp_path / "last" / "README.md").read_text()


def test_positions_that_stay_untrained_are_said(
    recipe: Path, tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["pretrain", "--config", str(recipe), "--data", str(tiny_shards_dir), "--steps", "2"]
    for positions, is_said in (("0", True), ("512", False)):
        run([*arguments, "--out", str(tmp_path / positions), "--examples.positions", positions])
        line = "positions from 32 on are not trained"
        assert (line in capsys.readouterr().err) == is_said


def test_an_estimate_writes_nothing(
    recipe: Path, tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["pretrain", "--config", str(recipe), "--data", str(tiny_shards_dir)]
    arguments += ["--out", str(tmp_path / "run"), "--steps", "100", "--dry-run"]
    run(arguments)
    text = capsys.readouterr().out
    for word in ("parameters", "memory", "GFLOP/step", "expected      100 steps"):
        assert word in text
    run([*arguments, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [stage["layers"] for stage in found["stages"]] == [1, 2]
    embeddings = 1000 * 32 + 512 * 32 + 2 * 32 + 2 * 32
    projection = 32 * 64 + 64
    block = 4 * (64 * 64 + 64) + (64 * 256 + 256) + (256 * 64 + 64) + 4 * 64
    heads = (64 * 64 + 64) + (64 * 32 + 32 + 2 * 32 + 1000) + (64 * 2 + 2)
    assert found["parameters"] == embeddings + projection + block + heads
    assert found["expected_s"] == pytest.approx(sum(50 * s["step_s"] for s in found["stages"]))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("joined", [False, True])
def test_the_tokens_that_are_announced_are_those_that_come(
    joined: bool, recipe: Path, tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the first batch is: one of a few left-over rows, for some seeds."""
    arguments = ["pretrain", "--config", str(recipe), "--data", str(tiny_shards_dir), "--json"]
    arguments += ["--steps", "40", "--out", str(tmp_path / "run")]
    if joined:  # most of the tokens are not of the masked examples
        arguments += ["--teacher", str(taught(tmp_path)["teacher"])]
        arguments += ["--objective.pairs-every-steps", "2", "--objective.pairs-batch-size", "64"]
    run(arguments)
    tokens = json.loads(capsys.readouterr().out)["tokens"]
    for seed in range(2):
        run([*arguments, "--dry-run", "--seed", str(seed)])
        expected = json.loads(capsys.readouterr().out)["expected_tokens"]
        assert expected == pytest.approx(tokens, rel=0.15)


def test_only_the_first_process_prints_an_estimate(
    recipe: Path,
    tiny_shards_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RANK", "1")
    arguments = ["pretrain", "--config", str(recipe), "--data", str(tiny_shards_dir)]
    run([*arguments, "--out", str(tmp_path / "run"), "--steps", "9", "--dry-run"])
    assert capsys.readouterr().out == ""


def test_parts_of_micro_batches_need_less_memory(
    recipe: Path, tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["pretrain", "--config", str(recipe), "--data", str(tiny_shards_dir), "--json"]
    arguments += ["--out", str(tmp_path / "run"), "--steps", "9", "--dry-run"]
    activations = []
    for parts in ("1", "4"):
        run([*arguments, "--accumulation", parts])
        activations.append(json.loads(capsys.readouterr().out)["memory"]["activations"])
    assert activations[1] == pytest.approx(activations[0] / 4, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--accumulation", "0"], "accumulation is 0"),
        (["--optimizer.nmae", "lamb"], "nmae"),
        (["--budget", "soon"], "not a duration"),
        (["--curriculum.layers", "0", "1", "0.5", "5"], "ends with 5 layers"),
        (["--model.preset", "albert-tny"], "albert-tiny"),
        (["--model.vocab-size", "10"], "1000 pieces"),
        (["--schedule.warmup-share", "2"], "share"),
        (["--init-from", "/nowhere"], "/nowhere"),
    ],
)
def test_mistakes_are_one_line(
    recipe: Path,
    tiny_shards_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    command = ["pretrain", "--config", str(recipe), "--data", str(tiny_shards_dir)]
    command += ["--out", str(tmp_path / "run"), "--steps", "2"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, *arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert error.count("\n") == 0
    assert not (tmp_path / "run").exists()


def test_an_unknown_key_in_the_recipe_is_refused(
    recipe: Path, tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe.write_text(RECIPE.replace("every_steps = 0\nfinal", "evry_steps = 0\nfinal"))
    command = ["pretrain", "--config", str(recipe), "--data", str(tiny_shards_dir)]
    with pytest.raises(SystemExit):
        main([*command, "--out", str(tmp_path / "run"), "--steps", "2"])
    error = capsys.readouterr().err
    assert "evry_steps" in error or "evry-steps" in error


@pytest.mark.parametrize("damage", ["missing", "cut", "other tokenizer", "two tokenizers"])
def test_broken_shards_are_named(
    recipe: Path, tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    shards = tmp_path / "shards"
    shutil.copytree(tiny_shards_dir, shards)
    file = shards / "train" / "00000.bin"
    command = ["pretrain", "--config", str(recipe), "--data", str(shards)]
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-2])
    else:
        settings = shards / "tokenizer" / "tokenizer_config.json"
        values = json.loads(settings.read_text())
        settings.write_text(json.dumps({**values, "do_lower_case": False}))
    if damage == "two tokenizers":
        manifest = shards / "manifest.json"
        values = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**values, "tokenizer": ""}))  # not known
        command += ["--extra-data", str(tiny_shards_dir)]
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--out", str(tmp_path / "run"), "--steps", "2"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    expected = {
        "other tokenizer": "another tokenizer than the one that made the tokens",
        "two tokenizers": f"{tiny_shards_dir} was prepared with another tokenizer",
    }
    assert expected.get(damage, "00000.bin") in error
    assert not (tmp_path / "run").exists()
