"""The runs below a folder: kind, state, steps, best figure, and what differs in their settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from litebert.common.config import flat_settings
from litebert.common.errors import DataError
from litebert.common.files import read_json
from litebert.common.runs import MANIFEST_FILE, RESULT_FILE, RunFolder
from litebert.report.finetuning import first_metric, is_finetuning, read_logs
from litebert.report.log import Record, mapping, number, points, read_if_there

_INSIDE_A_RUN = ("checkpoints", "model", "tensorboard", "predictions")
_NOT_A_SETTING = ("out", "resume", "task", "track")


@dataclass(frozen=True)
class RunSummary:
    """One run, as its files tell it."""

    run: str
    """its folder, seen from the one that was asked about"""
    kind: str
    """``pretrain``, ``finetune``, or ``damaged``: then the state says what is wrong"""
    state: str
    """``finished``, ``interrupted`` (saved on request), or ``unfinished``: running or killed"""
    updated: str = ""
    """when it last wrote"""
    task: str = ""
    steps: int = 0
    metric: str = ""
    best: float | None = None
    """of the metric on dev; without evaluations the training loss of the last line"""
    settings: Mapping[str, object] = field(default_factory=dict)
    """those that are not the same in all runs of its kind"""


def summarize_runs(folder: Path) -> list[RunSummary]:
    """Return the runs below a folder: by kind and task, the best first."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; name one that holds run folders")
    found = sorted(
        (_summary(path, folder) for path in _run_folders(folder)),
        key=lambda run: (run.kind, run.task, run.metric, _rank(run.metric, run.best), run.run),
    )
    out: list[RunSummary] = []
    for _, runs in groupby(found, key=lambda run: run.kind):
        same_kind = list(runs)
        different = differences([run.settings for run in same_kind])
        out += [replace(r, settings=s) for r, s in zip(same_kind, different, strict=True)]
    return out


def run_settings(run: Path) -> dict[str, object]:
    """Return the settings of a run by their dotted names; a recipe's where none were given."""
    settings = flat_settings(mapping(RunFolder.open(run).manifest(), "config"))
    recipe = read_logs(run)[0].event("recipe")
    taken = {k: v for k, v in recipe.items() if settings.get(k, 0) is None}
    return {k: v for k, v in {**settings, **taken}.items() if k not in _NOT_A_SETTING}


def differences(runs: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return of each run the settings that another run has with another value."""
    keys = dict.fromkeys(key for run in runs for key in run)
    values = {key: [run[key] for run in runs if key in run] for key in keys}
    kept = [key for key in keys if any(value != values[key][0] for value in values[key])]
    return [{key: run[key] for key in kept if key in run} for run in runs]


def settings_text(settings: Mapping[str, object]) -> str:
    """Return settings in one line, those that are set: ``lr=0.001, seed=2``."""
    return ", ".join(f"{k}={v}" for k, v in settings.items() if v is not None and v != [])


def _run_folders(folder: Path) -> Iterator[Path]:
    for name, inner, files in os.walk(folder):
        inner[:] = [n for n in inner if n not in _INSIDE_A_RUN and not n.startswith(".")]
        with suppress(DataError):  # a damaged one is told about
            if MANIFEST_FILE not in files or "argv" not in read_json(Path(name, MANIFEST_FILE)):
                continue  # that of a corpus
        inner[:] = [n for n in inner if not n.startswith("seed-")]  # parts of this run
        yield Path(name)


def _summary(path: Path, root: Path) -> RunSummary:
    name = path.relative_to(root).as_posix()
    try:
        manifest = RunFolder.open(path).manifest()
        records = [record for log in read_logs(path) for record in log.records]
        result = read_if_there(path / RESULT_FILE)
        settings = run_settings(path)
    except (DataError, ValueError) as error:
        return RunSummary(name, "damaged", str(error))
    tuned = is_finetuning(manifest)
    finished = bool(result) or (not tuned and (path / "model" / "config.json").is_file())
    last = next((r["event"] for r in reversed(records) if r.get("event")), "")
    state = "finished" if finished else "interrupted" if last == "interrupted" else "unfinished"
    metric, best = _best_figure(records, result, settings, tuned=tuned)
    written = max(file.stat().st_mtime for file in path.iterdir() if file.is_file())
    return RunSummary(
        run=name,
        kind="finetune" if tuned else "pretrain",
        state=state,
        updated=datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds"),
        task=str(mapping(manifest, "config").get("task") or ""),
        steps=int(max([number(r, "step") for r in records] + [number(result, "steps")])),
        metric=metric,
        best=best,
        settings=settings,
    )


def _best_figure(
    records: Sequence[Record], result: Record, settings: Record, *, tuned: bool
) -> tuple[str, float | None]:
    """Return the metric that chose the run's weights and its best value."""
    if result:
        metric = str(result.get("metric"))
        return metric, number(result, "scores", metric)
    metric = first_metric(records) if tuned else str(settings.get("evaluation.metric", "mlm_loss"))
    if found := [value for _, value in points(records, f"dev_{metric}")]:
        return metric, min(found, key=lambda value: _rank(metric, value))
    loss = "loss" if tuned else "mlm_loss"
    found = [value for _, value in points(records, loss)]
    return (f"training {loss}", found[-1]) if found else ("", None)


def _rank(metric: str, best: float | None) -> float:
    """Smaller is better, of losses and of scores."""
    if best is None:
        return float("inf")
    return best if metric.endswith("loss") else -best
