"""Runs side by side: what waits for what, what a failure leaves, where the output goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from litebert.common.errors import LitebertError
from litebert.data.corpus.config import EngineName
from litebert.experiments.execute import Job, run_jobs


def job(folder: Path, name: str, after: str | None = None, fails: bool = False) -> Job:
    """Leaves a file with its name, once the file of the job before it is there."""
    lines = ["import pathlib, sys", f"folder = pathlib.Path({str(folder)!r})"]
    if after is not None:
        lines.append(f"assert (folder / {after!r}).is_file()")
    lines.append("sys.exit('out of luck')" if fails else f"(folder / {name!r}).touch()")
    return Job(name, ("-c", "\n".join(lines)), folder / f"{name}.log", after)


def test_a_job_begins_when_its_start_has_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = [job(tmp_path, "b", after="a"), job(tmp_path, "a"), job(tmp_path, "c", after="earlier")]
    (tmp_path / "earlier").touch()
    assert run_jobs(jobs, workers=2, done={"earlier"}) == 0
    assert all((tmp_path / name).is_file() for name in "abc")
    assert "run 4 of 4" in capfd.readouterr().err


def test_relative_paths_start_where_the_job_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = Job("a", ("-c", "open('made', 'w').close()"), Path("a.log"))
    monkeypatch.chdir("/")
    assert run_jobs([one], workers=1) == 0
    assert (tmp_path / "made").is_file()
    assert (tmp_path / "a.log").is_file()


def test_a_failure_stops_the_rest_and_says_why(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "a", fails=True), job(tmp_path, "b", after="a")]
    with pytest.raises(LitebertError, match=r"run a failed: out of luck; all of it is in .*a\.log"):
        run_jobs(jobs, workers=1)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.ray)])
def test_a_failure_may_leave_the_others_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, engine: EngineName
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    jobs = [job(tmp_path, "a", fails=True), job(tmp_path, "b", after="a"), job(tmp_path, "c")]
    assert run_jobs(jobs, 2, engine, stops_at_failure=False) == 0
    assert (tmp_path / "c").is_file()
    assert not (tmp_path / "b").exists(), "what it starts from is not there"
    assert "run a failed: out of luck" in capfd.readouterr().err
