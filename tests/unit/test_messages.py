"""Advice that helps: every message names what people typed, and what to type instead."""

from __future__ import annotations

import json
import re
import shutil
import sys
import types
from pathlib import Path

import pytest

from litebert.cli import COMMANDS, main
from litebert.common.config import recipe_path
from litebert.common.errors import ConfigError, DataError, LitebertError
from litebert.data.corpus.engines import on_ray
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import find_task
from litebert.text.tokenizer import Tokenizer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "custom_task"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("litebert: error: ")
    assert not any("Traceback" in line for line in lines)
    return lines[-1].removeprefix("litebert: error: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("steps = 5.5", "steps = 5.5 should be of type int"),
        ('steps = "5"', "steps = '5' should be of type int"),
        ("compile = 1", "compile = 1 should be of type bool"),
        ("[optimizer]\nlr = '1e-3'", "optimizer.lr = '1e-3' should be of type float"),
        ("learning_rate = 1e-3", "unknown key 'learning_rate'. Did you mean 'optimizer.lr'?"),
        ("hidden_size = 3", "unknown key 'hidden_size'. Did you mean 'model.hidden_size'?"),
        ("[optimiser]\nlr = 1.0", "unknown key 'optimiser'. Did you mean 'optimizer'?"),
        ("[optimizer]\nlearning_rate = 1", "Did you mean 'optimizer.lr'?"),
        ("model = 3", "model = 3 should be a table"),
        ("[curriculum]\nlayers = [[0.0, 2], [0.5, 4, 6]]",
         "curriculum.layers[1] = [0.5, 4, 6] should have 2 values"),
        ("[curriculum]\nlength = [[0.0]]", "curriculum.length[0] = [0.0] should have 2 values"),
        ("steps = 3\n[curriculum]\nlayers = [[0.5, 2], [0.0, 4]]", "curriculum.layers is [[0.5, 2"),
        ("steps = 3\n[curriculum]\nlength = [[0.1, 2]]", "curriculum.length covers shares [0.1]"),
        ("steps = 3\n[schedule]\nwarmup_share = 2.0", "schedule.warmup_share is 2.0: use 0 to 1"),
        ("[curriculum]\nlayers = [0.0, 2]", "curriculum.layers[0] = 0.0 should be of type"),
    ],
)  # fmt: skip
def test_a_file_of_settings_is_checked_by_file_key_and_type(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(content)
    error = refused(["pretrain", "--config", str(path), "--data", "x", "--out", "y"], capsys)
    assert error.startswith(f"{path}: ")
    assert message in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "--lr", "1e-3"], "Did you mean --optimizer.lr?"),
        (["pretrain", "--learning-rate=1e-3"], "Did you mean --optimizer.lr?"),
        (["pretrain", "--output-dir", "x"], "Did you mean --out?"),
        (["finetune", "sst2", "--learning-rate", "1"], "Did you mean --lr?"),
        (["finetune", "sst2", "--num-train-epochs", "1"], "Did you mean --epochs?"),
        (["prepare", "--dev-share", "0.1"], "Did you mean --dev-fraction?"),
        (["pretrain", "--curriculum.layers", "0", "2", "0.5"], "--curriculum.layers takes pairs"),
        (["pretrain", "--steps", "5.5"], "--steps is 5.5: use a whole number"),
        (["pretrain", "--checkpoint.every-steps=0.5"], "--checkpoint.every-steps is 0.5"),
        (["fill-mask", "[MASK]", "--top-k", "2.5"], "--top-k is 2.5: use a whole number"),
    ],
)
def test_a_flag_that_does_not_exist_or_fit_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = {
        "pretrain": ["--data", "x", "--out", "y", "--tokens", "9"],
        "prepare": ["--input", "x", "--tokenizer", "t", "--out", "y"],
        "finetune": ["--out", "y"],
    }
    assert message in refused([*arguments, *needed.get(arguments[0], [])], capsys)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--examples.length", "4096"], "raise --model.max-positions"),
        (["--batch-size", "0"], "--batch-size is 0: use 1 or more"),
        (["--model.num-layers", "3"], "or set --model.num-layers"),
        (["--schedule.warmup-steps", "500", "--steps", "9"], "use --schedule.warmup-share"),
    ],
)
def test_advice_names_the_flag(
    flags: list[str], names: str, tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["pretrain", "--config", "tiny", "--data", str(tiny_shards_dir)]
    assert names in refused([*base, "--out", str(tmp_path / "run"), *flags], capsys)
    assert not (tmp_path / "run").exists()


def test_an_empty_table_replaces_that_of_a_recipe(
    tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--curriculum.layers` with nothing after it; --help says so."""
    base = ["pretrain", "--config", "tiny", "--data", str(tiny_shards_dir), "--dry-run", "--json"]
    base += ["--out", str(tmp_path / "run"), "--model.num-layers", "1", "--batch-size", "2"]
    main([*base, "--curriculum.layers", "--curriculum.length", "--curriculum.batch-size"])
    assert {stage["layers"] for stage in json.loads(capsys.readouterr().out)["stages"]} == {1}
    main(["pretrain", "--help"])
    said = "".join(capsys.readouterr().out.replace("│", "").split())
    assert "nothingemptiesarecipe'stable" in said


def test_other_settings_of_a_build_are_named_by_flag(
    tmp_path: Path, tiny_tokenizer_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("One sentence.\n\nAnother one.\n" * 20)
    base = ["prepare", "--input", str(tmp_path / "a.txt"), "--tokenizer", str(tiny_tokenizer_dir)]
    base += ["--out", str(tmp_path / "shards"), "--workers", "1"]
    main([*base, "--no-dedup"])
    error = refused([*base, "--no-dedup", "--dev-fraction", "0.1"], capsys)
    assert "--dev-fraction was 0.005 and is now 0.1" in error
    assert "--dedup was False and is now True" in refused(base, capsys)
    inside = str(tmp_path / "shards" / "tokenizer")
    error = refused([*base[:4], inside, *base[5:], "--restart"], capsys)
    assert "is inside the output" in error
    assert (tmp_path / "shards" / "tokenizer" / "spiece.model").is_file()


def test_a_missing_data_file_is_looked_for_in_named_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (EXAMPLES / "classification.toml").read_text()
    for name in ("train", "dev"):
        text = text.replace(f'{name} = "', f'{name} = "nix-')
    (tmp_path / "task.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as error:
        find_task("task.toml").read(Path(), "train", RowProblems())
    assert str(error.value).endswith(f" in {tmp_path}")
    assert " nor " not in str(error.value)


def test_a_task_file_may_be_json(tmp_path: Path) -> None:
    import tomllib

    settings = tomllib.loads((EXAMPLES / "classification.toml").read_text())
    path = tmp_path / "task.json"
    path.write_text(json.dumps(settings))
    assert find_task(str(path)).form == find_task(str(EXAMPLES / "classification.toml")).form
    path.write_text(json.dumps({**settings, "lables": []}))
    with pytest.raises(ConfigError, match=r"task\.json: unknown key 'lables'"):
        find_task(str(path))
    (tmp_path / "task.yaml").write_text("name: x")
    with pytest.raises(LitebertError, match=r"task\.yaml.*\.csv"):
        find_task(str(tmp_path / "task.yaml"))


def test_a_folder_without_a_vocabulary_is_not_given_another(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    shutil.copytree(tiny_tokenizer_dir, tmp_path / "run" / "model")
    with pytest.raises(DataError, match="name that folder"):
        Tokenizer.load(tmp_path / "run")
    (tmp_path / "bare").mkdir()
    with pytest.raises(DataError, match="litebert tokenizer train"):
        Tokenizer.load(tmp_path / "bare")
    (tmp_path / "bare" / "config.json").write_text("{}")
    with pytest.raises(DataError, match="another vocabulary does not fit") as error:
        Tokenizer.load(tmp_path / "bare")
    assert "tokenizer train" not in str(error.value)
    with pytest.raises(DataError, match="Did you mean '.*/bare'"):
        Tokenizer.load(tmp_path / "baer")


def test_ray_without_a_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = types.ModuleType("ray")

    def init(**_: object) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nPlease specify one.")

    ray.is_initialized, ray.init = (lambda: False), init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(ConfigError) as error:
        list(on_ray([], None, None))  # type: ignore[arg-type]
    assert str(error.value).startswith("Ray cannot be reached at RAY_ADDRESS=auto: Could not find")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_is_true_outside_a_checkout(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Recipes by the names that the package carries; settings are flags, not positions."""
    words = command.split(".")
    main([*words, "--help"])
    text = capsys.readouterr().out
    assert "configs/" not in text
    named = text.split("--config ")[1:] if "Examples:" in text else []
    for name in (rest.split()[0] for rest in named if rest[:1].isalpha() and rest[:1].islower()):
        assert recipe_path(words[0], name).is_file()
    shown = re.findall(r"^│ \*? *([A-Z][A-Z-]*) --", text, re.MULTILINE)
    assert set(shown) <= {"TASK", "TASKS", "SOURCE", "OUT", "RUN", "TEXT"}, "settings are flags"
    if command in ("serve", "demo", "pretrain", "prepare", "tokenizer.train"):
        assert not shown
