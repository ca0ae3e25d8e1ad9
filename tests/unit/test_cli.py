"""The command line answers mistakes with one line and exit status 2."""

from __future__ import annotations

import json
import os
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from litebert.cli import COMMANDS, _without_overridden_lengths, build_app, main, run
from litebert.common.errors import ConfigError
from litebert.train.pretraining.config import PretrainConfig


@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "9"}])
def test_threads_wait_without_spinning_unless_the_user_says_how(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        # Set first, so that what main sets is undone after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    main(["params", "albert-tiny", "--json"])
    found = {name: os.environ.get(name) for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    assert found == {"OMP_WAIT_POLICY": None, "GOMP_SPINCOUNT": None} | (
        own or {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parms"], 'Did you mean "params"?'),
        (["params", "--hiden-size", "3"], "--hidden-size"),
        (["params", "albert-bsae"], "albert-base"),
        (["pretrain", "--config"], "--config needs a file name"),
        (
            ["evaluate", "rte", "--predictions", "p.tsv", "--data", "d.tsv", "--out", "o"],
            "--out does nothing together with --predictions",
        ),
        (["pretrain", "--config", "nowhere.toml"], "nowhere.toml does not exist"),
    ],
)
def test_mistakes_get_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("litebert: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_an_error_of_the_system_is_one_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("A sentence.\n")
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as stop:
        main(["tokenizer", "train", "--input", str(tmp_path / "text.txt"),
              "--out", str(tmp_path / "file" / "below"), "--vocab-size", "40"])  # fmt: skip
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("litebert: error: ")


def test_unknown_key_in_config_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.toml"
    path.write_text("stepz = 3\n")
    with pytest.raises(SystemExit) as stop:
        main(["pretrain", "--config", str(path), "--data", "x", "--out", "y"])
    assert stop.value.code == 2
    assert "stepz" in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    module, function = COMMANDS[command][0].split(":")
    assert callable(getattr(import_module(f"litebert.commands.{module}"), function))
    main([*command.split("."), "--help"])
    text = capsys.readouterr().out
    assert "Usage: litebert" in text
    assert f"litebert {command.replace('.', ' ')} " in text.split("Usage:", 1)[1], "no example"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_is_wrapped_by_the_terminal_alone(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    main([*command.split("."), "--help"])
    about, *flags = capsys.readouterr().out.split("╭")
    lines = about.splitlines()
    broken = [one for one, two in pairwise(lines) if one.strip() and two.strip()]
    rows = [line for box in flags for line in box.splitlines()]
    broken += [line for line in rows if line.startswith("│" + " " * 8)]
    assert broken == []


def test_a_length_flag_replaces_the_lengths_of_the_file() -> None:
    values: dict[str, object] = {"steps": 2000, "seed": 1}
    assert _without_overridden_lengths(values, ["pretrain", "--budget", "5m"]) == {"seed": 1}
    assert _without_overridden_lengths(values, ["pretrain", "--steps=7"]) == {"seed": 1}
    assert _without_overridden_lengths(values, ["pretrain", "--seed", "7"]) == values


def test_a_warm_up_in_steps_goes_with_the_steps() -> None:
    values: dict[str, object] = {"steps": 9, "schedule": {"name": "linear", "warmup_steps": 3}}
    by_time = _without_overridden_lengths(values, ["pretrain", "--budget", "5m"])
    assert by_time == {"schedule": {"name": "linear"}}
    by_steps = _without_overridden_lengths(values, ["pretrain", "--steps", "50"])
    assert by_steps == {"schedule": {"name": "linear"}}
    values = {"steps": 5336, "warmup_steps": 320, "lr": 1e-5}
    assert _without_overridden_lengths(values, ["finetune", "--steps", "400"]) == {"lr": 1e-5}


def parse(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> PretrainConfig:
    """The configuration that `litebert pretrain` would train with."""
    seen: list[PretrainConfig] = []

    def stop(config: PretrainConfig) -> None:
        seen.append(config)
        raise ConfigError("seen")

    monkeypatch.setattr("litebert.train.pretraining.engine.pretrain", stop)
    with pytest.raises(ConfigError, match="seen"):
        run(["pretrain", "--data", "shards", "--out", "run", *arguments])
    return seen[0]


def test_flag_beats_file_beats_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        "steps = 9\nbatch_size = 4\ncompile = true\nextra_data = ['a', 'b']\n"
        "[curriculum]\nlayers = [[0.0, 1], [0.5, 2]]\nlength = [[0.0, 64]]\n"
        "[model]\nhidden_size = 128\nnum_layers = 3\n"
    )
    plain = PretrainConfig(Path("shards"), Path("run"), steps=9)
    assert parse(monkeypatch, ["--steps", "9"]) == plain
    from_file = parse(monkeypatch, ["--config", str(file)])
    assert (from_file.batch_size, from_file.compile) == (4, True)
    assert from_file.extra_data == (Path("a"), Path("b"))
    assert from_file.curriculum.layers == ((0.0, 1.0), (0.5, 2.0))
    assert from_file.model.changes() == {"hidden_size": 128, "num_layers": 3}
    assert from_file.optimizer == plain.optimizer
    flags = ["--model.num-layers", "5", "--curriculum.layers", "0", "2", "0.3", "4", "--no-compile"]
    both = parse(monkeypatch, ["--config", str(file), *flags, "--extra-data", "c", "d"])
    assert both.curriculum.layers == ((0.0, 2.0), (0.3, 4.0))
    assert both.curriculum.length == ((0.0, 64.0),)
    assert both.model.changes() == {"hidden_size": 128, "num_layers": 5}
    assert (both.compile, both.extra_data) == (False, (Path("c"), Path("d")))


def test_the_shape_is_flags_of_params(capsys: pytest.CaptureFixture[str]) -> None:
    run(["params", "albert-large", "--hidden-size", "768", "--sharing", "none", "--json"])
    [row] = json.loads(capsys.readouterr().out)
    assert (row["hidden_size"], row["num_layers"], row["sharing"]) == (768, 24, "none")
    run(["params", "--hidden-size", "256", "--embedding-size", "256", "--embedding-projection",
         "--json"])  # fmt: skip
    [free] = json.loads(capsys.readouterr().out)
    assert (free["name"], free["num_layers"], free["num_heads"]) == ("custom", 12, 4)


def test_settings_of_the_server_are_flags_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "folder"])
    assert "folder" in capsys.readouterr().err
    main(["serve", "--help"])
    assert "MODEL --model" not in capsys.readouterr().out


def test_a_shell_completes_commands_and_settings() -> None:
    script = build_app().generate_completion(shell="bash")
    for word in ("fill-mask", "--int8-bits", "--optimizer.lr"):
        assert word in script, word
