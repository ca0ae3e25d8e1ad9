"""``--model`` means one thing: a folder, a run's model, a hub name; never something else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from litebert.cli import main
from litebert.common.errors import CheckpointError, DataError
from litebert.common.files import near_folders
from litebert.common.runs import RunFolder
from litebert.interop import folder as interop_folder
from litebert.interop.folder import resolve
from litebert.predict.predictor import Predictor

TASK = Path(__file__).resolve().parents[3] / "examples" / "custom_task" / "classification.toml"
NO_HUB = "is neither a folder here nor a model on the Hugging Face hub"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hub; and what is said once is said once in each test."""

    def download(name: str) -> Path:
        raise CheckpointError(f"{name} {NO_HUB}.{near_folders(name)}")

    monkeypatch.setattr(interop_folder, "_download", download)
    interop_folder._say_once.cache_clear()


@pytest.fixture
def run(tmp_path: Path, model_folder: Callable[..., Path]) -> Path:
    """A finished run."""
    run = RunFolder.create(tmp_path / "run1", {"steps": 1}, {}).path
    shutil.copytree(model_folder("pretraining"), run / "model")
    return run


def test_a_run_folder_stands_for_its_model(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert resolve(run) == resolve(str(run)) == run / "model"
    assert capsys.readouterr().err == f"{run} is a run folder: using its model, {run / 'model'}\n"
    assert resolve(run / "model") == run / "model"
    assert Predictor.load(run).fill_mask(["a [MASK]."])
    assert not capsys.readouterr().err


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("litebert: error: ")
    assert error.count("\n") == 1, error
    return error


@pytest.mark.parametrize(
    ("typo", "near"), [("run1/modle", "run1/model"), ("rnu1", "run1"), ("rnu1/model", "run1/model"), ("run1/x/y", "")]
)
def test_every_command_names_what_is_near_a_typo(
    typo: str, near: str, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    task, out = str(TASK), "new"
    for arguments in (
        ["fill-mask", "a [MASK].", "--model", typo],
        ["predict", "embed", "--model", typo],
        ["analyze", "layers", "--input", task, "--model", typo],
        ["probe", "--task", task, "--model", typo],
        ["evaluate", task, "--model", typo],
        ["finetune", task, "--model", typo, "--out", out],
        ["export", "onnx", typo, out],
        ["import", "hf", typo, out],
        ["serve", "--model", typo, "--port", "0"],
    ):
        error = refused(arguments, capsys)
        assert "does not exist" in error or NO_HUB in error
        assert (f"Did you mean '{near}'" in error) == bool(near)
        assert not Path(out).exists()
        assert not Path(typo).exists()


def test_folders_without_a_model_say_what_they_are(
    run: Path, tmp_path: Path, tiny_shards_dir: Path, tiny_tokenizer_dir: Path
) -> None:
    shutil.move(run / "model", tmp_path / "kept")
    cases = {tiny_shards_dir: "shards", tiny_tokenizer_dir: "tokenizer without", tmp_path: "kept"}
    for folder, hint in cases.items():
        with pytest.raises(CheckpointError, match=hint):
            resolve(folder)
    (run / "checkpoints").mkdir()
    with pytest.raises(CheckpointError, match=r"no model yet.*litebert export checkpoint"):
        resolve(run)
    with pytest.raises(CheckpointError, match="is a file.*name its folder"):
        resolve(tmp_path / "kept" / "config.json")


@pytest.mark.parametrize("only", ["run1/modle", "run1/model", "run1", "exported", "bundled"])
def test_an_export_names_the_model_and_the_new_folder(
    only: str, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    there = sorted(Path().rglob("*"))
    assert "`litebert export onnx --help`" in refused(["export", "onnx", only, "--int8"], capsys)
    assert sorted(Path().rglob("*")) == there


def test_the_bundled_model_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fill-mask", "the capital of [MASK]."])
    said = capsys.readouterr().err.splitlines()
    assert said == ["using the small model that comes with litebert; --model names another"]


def test_a_run_is_found_from_its_model_and_from_a_typo(run: Path) -> None:
    with pytest.raises(DataError, match=f"Did you mean '{run}'"):
        RunFolder.open(run / "model")
    with pytest.raises(DataError, match=f"Did you mean '{run}'"):
        RunFolder.open(run.with_name("rnu1"))


def test_a_path_is_never_a_hub_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        resolve(Path("albert/albert-base-v2"))
    with pytest.raises(CheckpointError, match=NO_HUB):
        resolve("albert/albert-base-v2")


def test_each_part_of_a_path_may_be_misspelt(tmp_path: Path) -> None:
    (tmp_path / "runs" / "sst2" / "model").mkdir(parents=True)
    (tmp_path / "runs" / "sst5" / "model").mkdir(parents=True)
    near = near_folders(tmp_path / "rnus" / "sst3" / "modle")
    assert {part for part in ("sst2/model'", "sst5/model'", " or ") if part in near} == {
        "sst2/model'", "sst5/model'", " or ",
    }  # fmt: skip
    assert near_folders(tmp_path / "runs" / "quite-different") == ""
