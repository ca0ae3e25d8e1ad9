"""Run folders are owned: one writer, no strangers, no input inside, nothing left, no new start."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from litebert.common.errors import CheckpointError, DataError, LitebertError
from litebert.common.ownership import folder_lock, owned_folder
from litebert.common.runs import RunFolder
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import finetune
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.engine import pretrain
from small_finetuning import small_finetuning
from small_run import small_config
from tiny_models import random_model_folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def finished(tiny_shards_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished pretraining of one step."""
    out = tmp_path_factory.mktemp("finished") / "run"
    pretrain(small_config(tiny_shards_dir, out, steps=1), quiet=True)
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def refuse(config: FinetuneConfig | PretrainConfig, message: str, error: type[LitebertError] = DataError) -> None:
    """Both engines refuse, in words, and change no byte."""
    before = content(config.out)
    choices: tuple[Literal["no", "auto"], ...] = ("no", "auto")
    for resume in choices:
        with pytest.raises(error, match=message):
            if isinstance(config, FinetuneConfig):
                finetune(replace(config, resume=resume))
            else:
                pretrain(replace(config, resume=resume), quiet=True)
    assert content(config.out) == before


def test_a_second_writer_is_refused(run: Path, tiny_shards_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock.__wrapped__, "__defaults__", (0.1,))  # type: ignore[attr-defined]
    config = small_config(tiny_shards_dir, run, steps=2, resume="auto")
    with owned_folder(run, lambda _: True), monkeypatch.context() as other:
        # Within one thread filelock would call it a deadlock; another process waits.
        other.setattr("filelock.FileLock.acquire", _busy)
        with pytest.raises(DataError, match="another litebert process is writing"):
            pretrain(config, quiet=True)


def _busy(self: object) -> None:
    from filelock import Timeout

    raise Timeout("lock")


def test_a_finished_run_without_its_manifest_is_not_started_over(run: Path, tiny_shards_dir: Path) -> None:
    (run / "manifest.json").unlink()
    refuse(small_config(tiny_shards_dir, run, steps=2), r"checkpoints/, .*metrics\.jsonl, model/")


def test_a_finished_run_without_its_checkpoints_is_not_started_over(run: Path, tiny_shards_dir: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    config = small_config(tiny_shards_dir, run, steps=2, resume="auto")
    before = content(run)
    with pytest.raises(CheckpointError, match="checkpoints are gone"):
        pretrain(config, quiet=True)
    with pytest.raises(DataError, match=r"a run that has finished: .* --resume auto and a longer"):
        pretrain(replace(config, resume="no"), quiet=True)
    assert content(run) == before
    (run / "result.json").write_text("{}")
    with pytest.raises(DataError, match="choose another --out or delete that folder"):
        RunFolder.refuse_existing(run)


@pytest.mark.parametrize("name", ["report.html", "model/config.json", "metrics.jsonl", "notes.txt"])
def test_files_of_others_are_refused_and_named(
    name: str, tmp_path: Path, tiny_shards_dir: Path, model_folder: Callable[[str], Path]
) -> None:
    out = tmp_path / "mine"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("mine")
    shown = name.split("/")[0]
    refuse(small_config(tiny_shards_dir, out), shown)
    refuse(small_finetuning(model_folder("pretraining"), out, "classification"), shown)


def test_shards_and_runs_of_another_kind_are_not_taken_for_the_run(
    run: Path, tmp_path: Path, tiny_shards_dir: Path, model_folder: Callable[[str], Path]
) -> None:
    """All of them have a manifest.json."""
    shards = Path(shutil.copytree(tiny_shards_dir, tmp_path / "shards"))
    refuse(small_config(tiny_shards_dir, shards), r"dev/, manifest\.json")
    refuse(small_config(shards, shards), "--data .* is the output")
    other = small_finetuning(model_folder("pretraining"), run, "classification")
    refuse(other, "holds a pretraining run", CheckpointError)


def test_the_input_is_not_inside_the_output(
    run: Path, tmp_path: Path, tiny_shards_dir: Path, tiny_tokenizer_dir: Path
) -> None:
    model = random_model_folder(tmp_path / "proj" / "model", "pretraining", tiny_tokenizer_dir)
    (tmp_path / "link").symlink_to(tmp_path / "proj")
    for out in (tmp_path / "proj", tmp_path / "link", model):
        refuse(small_finetuning(model, out, "classification"), "--model .* must not be overwritten")
    config = small_config(tiny_shards_dir, run, steps=2, init_from=str(run / "model"))
    refuse(config, "--init-from .* inside the output")


def test_what_a_killed_run_left_is_removed_by_the_next(run: Path, tiny_shards_dir: Path) -> None:
    for leftover in (".model.abcdefgh.tmp", "checkpoints/.step-1.abcdefgh.tmp"):
        (run / leftover).mkdir()
        (run / leftover / "model.safetensors").write_text("half")
    (run / ".model.lock").touch()
    (run / ".samples.json.abcdefgh.tmp").touch()
    (run / "notes.txt").write_text("mine")
    pretrain(small_config(tiny_shards_dir, run, steps=2, resume="auto"), quiet=True)
    assert not list(run.rglob(".*"))
    assert (run / "notes.txt").read_text() == "mine"
