"""What run folders hold: a self-contained HTML page of each, one table of many, a list of those below a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import fmean

from litebert.common.config import flat_settings
from litebert.common.errors import DataError, blame
from litebert.common.files import read_json, write_text
from litebert.common.runs import BASELINES, MANIFEST_FILE, RESULT_FILE, RunFolder
from litebert.report.finetuning import finetuning_page, first_metric, is_finetuning, read_logs
from litebert.report.log import Record, mapping, number, points, read_if_there
from litebert.report.page import markdown_table
from litebert.report.pretraining import pretraining_page

_INSIDE_A_RUN = ("checkpoints", "model", "tensorboard", "predictions")
_NOT_A_SETTING = ("out", "resume", "task", "track")
_PAPER_SCORES = {
    "squad1": ("f1", "exact_match"),
    # Of SQuAD 2.0 those of the threshold tuned on dev, as published scores are.
    "squad2": ("best_f1", "best_exact"),
    **dict.fromkeys(("mnli", "sst2", "race"), ("accuracy",)),
}
"""Tasks of the paper's Avg, and the scores whose mean counts."""


def write_report(run: Path | str, target: Path | str | None = None) -> Path:
    """Write the page of a run, by default its ``report.html``; the path of the page."""
    folder = RunFolder.open(run)
    path = Path(target) if target is not None else folder.path / "report.html"
    make = finetuning_page if is_finetuning(folder.manifest()) else pretraining_page
    with blame(f"a file of {folder.path}"):
        text = make(folder)
    write_text(path, text)
    return path


def write_reports(run: Path | str) -> Path:
    """Write the pages of a run and of each of its seeds; the path of the run's own."""
    for manifest in sorted(Path(run).glob("seed-*/manifest.json")):
        write_report(manifest.parent)
    return write_report(run)


def score_table(runs: Sequence[Path]) -> str:
    """A Markdown table of finished fine-tuning runs, at its end the settings that differ."""
    rows = [_row(run) for run in runs]
    for row, settings in zip(rows, differences(list(map(run_settings, runs))), strict=True):
        row["settings"] = settings_text(settings)
    headings = [heading for heading in rows[0] if any(row[heading] for row in rows)]
    text = markdown_table(headings, [[row[heading] for heading in headings] for row in rows])
    average = paper_average([read_json(run / RESULT_FILE) for run in runs])
    if average is not None:
        text += f"\nAvg as in the paper (of five tasks; SQuAD: mean of F1 and EM): {average:.1f}\n"
    return text


def paper_average(results: Sequence[Record]) -> float | None:
    """The paper's Avg in percent: SQuAD 1.1 and 2.0 (F1 and EM averaged first), MNLI, SST-2, RACE.

    None unless each of the five has exactly one result.
    """
    found = [result for result in results if result.get("task") in _PAPER_SCORES]
    if sorted(str(result["task"]) for result in found) != sorted(_PAPER_SCORES):
        return None
    means = []
    for result in found:
        names = _PAPER_SCORES[str(result["task"])]
        percent = 100.0 if names == ("accuracy",) else 1.0
        means.append(percent * fmean(number(result, "scores", name) for name in names))
    return fmean(means)


def _row(run: Path) -> dict[str, str]:
    """What the table says of a run, by its headings."""
    result = read_if_there(run / RESULT_FILE)
    if not result:
        raise DataError(f"{run} has no {RESULT_FILE}: it is not a finished fine-tuning run")
    metric = str(result.get("metric"))
    beside = {name: {"scores": scores} for name, scores in mapping(result, "baselines").items()}
    if "random" in beside:  # a run of its own, which has the score of each seed
        beside["random"] = read_if_there(run / "random" / RESULT_FILE) or beside["random"]
    return {
        "run": run.as_posix(),
        "task": str(result.get("task")),
        "metric": metric,
        "dev score": _score(result, metric),
        "baseline": f"{number(result, 'baseline', metric):.4g}",
        **{title: _score(beside[name], metric) if name in beside else "" for name, title in BASELINES.items()},
        "trained on": _share(result, "train_examples", "train_available"),
        "epochs": f"{number(result, 'epochs'):.3g}",
        "steps": f"{number(result, 'steps'):,.0f}",
        "scored": _share(result, "dev_examples", "dev_available"),
        "minutes": f"{number(result, 'seconds') / 60:.1f}",
    }


def _score(result: Record, metric: str) -> str:
    """A score; of several seeds the median, and the lowest and highest."""
    score, seeds = f"{number(result, 'scores', metric):.4g}", result.get("by_seed")
    found = [number(seed, metric) for seed in seeds] if isinstance(seeds, Sequence) else []
    return score + (f" (median of {len(found)}: {min(found):.4g} to {max(found):.4g})" if found else "")


def _share(result: Record, key: str, whole_key: str) -> str:
    part, whole = number(result, key), number(result, whole_key)
    return f"{part:,.0f} of {whole:,.0f}" if part < whole else f"all {part:,.0f}"


@dataclass(frozen=True)
class RunSummary:
    """One run, as its files tell it."""

    run: str  # its folder, seen from the one that was asked about
    kind: str
    """``pretrain``, ``finetune``, or ``damaged``: then the state says what is wrong"""
    state: str
    """``finished``, ``interrupted`` (saved on request), or ``unfinished``: running or killed"""
    updated: str = ""
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
    found = [_summary(path, folder) for path in _run_folders(folder)]
    found.sort(key=lambda run: (run.kind, run.task, run.metric, _rank(run.metric, run.best), run.run))
    out: list[RunSummary] = []
    for same_kind in (list(runs) for _, runs in groupby(found, key=lambda run: run.kind)):
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
