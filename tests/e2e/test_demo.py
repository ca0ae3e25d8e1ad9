"""The demo goes the whole way and does not redo what is finished."""

from __future__ import annotations

import io
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from litebert.common.errors import ConfigError, DataError, InputError
from litebert.common.files import read_json
from litebert.demo import pipeline
from litebert.demo.folder import DemoConfig, DemoFolder
from litebert.demo.pipeline import StageInterrupted
from litebert.demo.show import Screen

STEPS = 3


def run(config: DemoConfig) -> tuple[str, int]:
    screen = io.StringIO()
    stopped_by = pipeline.demo(config, Screen(Console(file=screen, width=120)))
    return screen.getvalue(), stopped_by


@pytest.fixture(scope="module")
def own_text(tmp_path_factory: pytest.TempPathFactory, python_text: Path) -> Path:
    """A folder of two files, each with many documents."""
    folder = tmp_path_factory.mktemp("own") / "texts"
    folder.mkdir()
    documents = python_text.read_text(encoding="utf-8").split("\n\n")
    (folder / "first.txt").write_text("\n\n".join(documents[::2]), encoding="utf-8")
    (folder / "second.txt").write_text("\n\n".join(documents[1::2]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, own_text: Path) -> tuple[DemoConfig, str]:
    config = DemoConfig(tmp_path_factory.mktemp("demo") / "out", corpus=own_text, steps=STEPS)
    return config, run(config)[0]


def test_text_to_an_answer_of_the_server(finished: tuple[DemoConfig, str]) -> None:
    config, screen = finished
    folder = DemoFolder(config)
    assert "kept from an earlier run" not in screen
    for path in (folder.model, folder.finetune / "model"):
        assert (path / "model.safetensors").is_file()
    assert (folder.int8 / "model.onnx").is_file()
    answer: dict[str, Any] = read_json(folder.answer)
    assert answer["exit_status"] == 0
    (result,) = answer["answer"]["results"]
    assert set(result["scores"]) == {"first.txt", "second.txt"}
    assert result["label"] == max(result["scores"], key=result["scores"].get)
    scores: dict[str, Any] = read_json(folder.scores)
    assert sum(map(sum, scores["confusion"]["matrix"])) == scores["examples"]
    assert "<svg" in folder.report.read_text(encoding="utf-8")


def test_it_ends_with_three_commands(finished: tuple[DemoConfig, str]) -> None:
    _, _, end = finished[1].partition("Try next\n")
    commands = [line.split() for line in end.splitlines()]
    assert [command[1] for command in commands] == ["fill-mask", "serve", "demo"]
    # They can be called as they stand, whether or not the environment is on the search path.
    assert all(shutil.which(command[0]) is not None for command in commands)


def test_finished_stages_are_kept_and_later_ones_follow_a_redone_one(finished: tuple[DemoConfig, str]) -> None:
    config, first = finished
    num_stages = first.count("done in")
    again, _ = run(config)
    assert again.count("kept from an earlier run") == num_stages
    folder = DemoFolder(config)
    folder.exported.unlink()  # as if killed between the model and the file that proves it
    once_more, _ = run(config)
    assert once_more.count("kept from an earlier run") == num_stages - 3  # export, serve, report
    assert (folder.int8 / "model.onnx").is_file()


def test_another_length_is_noticed(finished: tuple[DemoConfig, str]) -> None:
    config, first = finished
    assert "were made with" not in first
    again, _ = run(DemoConfig(config.out, config.corpus, budget="1h"))
    assert f"finished stages in it were made with --steps {STEPS}" in again


def test_another_text_is_refused(finished: tuple[DemoConfig, str], python_text: Path) -> None:
    config, _ = finished
    with pytest.raises(ConfigError, match="holds a demo on"):
        run(DemoConfig(config.out, corpus=python_text, steps=STEPS))


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(DataError, match=r"not of such a folder: thesis\.txt"):
        run(DemoConfig(tmp_path, steps=STEPS))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_missing_corpus_and_a_wrong_budget_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere does not exist"):
        DemoConfig(out=tmp_path, corpus=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="soon"):
        run(DemoConfig(out=tmp_path / "demo", budget="soon"))
    assert not (tmp_path / "demo").exists()


def test_interrupted_it_goes_on(tmp_path: Path, own_text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = DemoConfig(tmp_path / "demo", corpus=own_text, steps=STEPS)

    def interrupted_pretraining(*_: object) -> None:
        raise StageInterrupted(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "pretrain_tiny", interrupted_pretraining)
        screen, stopped_by = run(config)
    assert stopped_by == signal.SIGINT
    assert "the same command goes on" in screen

    def nothing(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pipeline, "fill_masks", nothing)
        run(config)
    assert (config.out / "pretrain" / "model" / "config.json").is_file()
    assert not (config.out / "fill_mask.json").exists()


def test_one_document_has_no_labels_but_a_served_model(tmp_path: Path, python_text: Path) -> None:
    """Nothing to tell apart: the fine-tuning stages say so, and the server fills a mask."""
    lines = [line for line in python_text.read_text(encoding="utf-8").splitlines() if line]
    corpus = tmp_path / "one.txt"
    corpus.write_text("\n".join(lines[:400]), encoding="utf-8")
    screen, _ = run(DemoConfig(tmp_path / "demo", corpus=corpus, steps=STEPS))
    assert "none could be cut: the text is one document" in screen
    assert screen.count("skipped: there is no labelled task") == 3
    answer = read_json(tmp_path / "demo" / "answer.json")
    assert answer["path"] == "/fill-mask"
    assert answer["exit_status"] == 0
