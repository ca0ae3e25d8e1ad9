"""Which runs an experiment needs, each with a hash, and what is kept of those that were made."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from litebert.common.config import from_dict, read_toml, recipe_path, to_dict, toml_lines
from litebert.common.files import write_json_lines, write_text
from litebert.common.rows import read_rows
from litebert.data.corpus.shards import ShardSet
from litebert.experiments.config import RECIPES, Condition, Experiment, Scale, Variant
from litebert.model.config import ModelConfig
from litebert.report.log import Points, number, read_if_there
from litebert.report.plots import curve
from litebert.train.estimate import MASK_RATE, step_flops
from litebert.train.pretraining.config import PretrainConfig, parse_duration
from litebert.train.pretraining.curriculum import stage_at

JOB_FILE = "job.json"
MEASURES_FILE = "measures.json"
LAYERS_FILE = "layers.json"
PAPER_PIECES = 30_000
_CURVES = ("dev_masked_loss", "dev_mlm_accuracy", "dev_sop_accuracy")  # what some experiment draws
_IN_PROPORTION = ("evaluation.every_steps", "evaluation.final_examples", "checkpoint.every_steps")
"""In a shorter run: as many evaluations and checkpoints, of fewer examples."""
_OTHER_SETTINGS = ("data", "extra_data", "dev_data", "out", "init_from", "resume", "threads")
"""No part of a run's hash: what lies in the folders, and the start's own hash, is."""


@dataclass(frozen=True)
class Record:
    """A finished run, a line of JSON that spares other machines the run."""

    key: str  # hash of everything that decides the run
    measures: dict[str, float]
    curves: dict[str, Points] = field(default_factory=dict)  # metric -> (tokens, value) of each evaluation
    layers: dict[str, object] = field(default_factory=dict)  # Figure 1 of its model, if it was measured


Records = dict[str, Record]  # by key


def read_records(path: Path) -> Records:
    """The records of a file; none if there is no file."""
    rows = read_rows(path) if path.is_file() else []
    found = (from_dict(Record, row, f"{path}, line {line}") for line, row in rows)
    return {record.key: record for record in found}


def write_records(path: Path, records: Records) -> None:
    """Write a file of records, in the order of their keys, so that two versions compare well."""
    write_json_lines(path, (asdict(records[key]) for key in sorted(records)))


@dataclass(frozen=True)
class Assignment:
    """What a person asks of experiments, besides their names."""

    out: Path  # folder of runs, tables and pages
    scale: Scale = "cpu"
    data: tuple[Path, ...] = ()  # folders of shards; the first is the plain corpus, the others are more data
    dev: tuple[Path, ...] = ()  # shards of other text to measure on; default: the dev documents of the data
    task_data: Path | None = None  # folder of fine-tuning tasks; without it none is run
    tokens: int | None = None  # length of a run; default: the recipe's
    seeds: int | None = None  # default: the experiment's
    known: Records = field(default_factory=dict)  # runs that were made elsewhere


@dataclass(frozen=True)
class PlannedRun:
    """One pretraining with all that is measured of its model."""

    key: str  # hash of everything that decides it
    config: PretrainConfig
    start: PlannedRun | None
    tasks: tuple[str, ...]
    task_data: Path | None
    layers: bool
    known: Record | None = None  # what another machine found

    @property
    def folder(self) -> Path:
        """Job, log and measures; the run folder of pretraining lies in it."""
        return self.config.out.parent

    @property
    def model(self) -> Path:
        """What others start from; it is not there if only the record is."""
        return self.config.out / "model"

    def job(self) -> dict[str, object]:
        """What the worker reads."""
        tasks = {"tasks": list(self.tasks), "task_data": str(self.task_data or "")}
        return {"pretrain": to_dict(self.config), **tasks, "layers": self.layers}

    def record(self) -> Record | None:
        """What was found, None before the run has come to its end with all that is asked."""
        if self.known and self._is_whole(self.known.measures):
            return self.known  # also where its model was made again for those that start from it
        found = read_if_there(self.folder / MEASURES_FILE)
        if not self._is_whole(found):
            return None
        curves = {metric: curve(self.config.out, metric) for metric in _CURVES}
        layers = read_if_there(self.folder / LAYERS_FILE)
        return Record(self.key, {name: number(found, name) for name in found}, curves, layers)

    def _is_whole(self, measures: Container[str]) -> bool:
        wanted = ["masked_loss", *(f"{task}.score" for task in self.tasks)]
        return all(name in measures for name in wanted + ["distance_step"] * self.layers)

    def flops(self, vocab_size: int) -> float:
        """Operations of the pretraining, about; 0 if it is as long as a time."""
        config, shape = self.config, self.config.model.resolve(vocab_size)
        stages = [share for share, _ in config.curriculum.layers] or [0.0]
        total = 0.0
        for begin, end in zip(stages, [*stages[1:], 1.0], strict=True):
            stage = stage_at(config, shape, begin)
            predictions = round(stage.length * MASK_RATE)
            per_token = step_flops(shape, 1, stage.length, predictions, stage.layers) / stage.length
            total += (end - begin) * (config.tokens or 0) * per_token
        return total


Runs = dict[tuple[str, int], PlannedRun]  # by condition and seed


def paper_config(experiment: Experiment, condition: str) -> tuple[PretrainConfig, ModelConfig]:
    """The full-size run of a condition, and its shape."""
    request = Assignment(Path("runs"), "paper", (Path("shards"),))
    (row,) = (one for one in experiment.rows("paper") if one.name == condition)
    config = _config(experiment, row, request, 0, None)
    return config, config.model.resolve(PAPER_PIECES)


def plan_runs(experiment: Experiment, request: Assignment) -> Runs:
    """All runs of an experiment, starts before those that need them."""
    runs: Runs = {}
    if len(request.data) < experiment.corpora:
        return runs
    prints, dev = ([ShardSet.open(one, "train").fingerprint for one in of] for of in (request.data, request.dev))
    for seed in range(request.seeds or experiment.seeds):
        for condition in experiment.conditions:
            if (variant := condition.at(request.scale)) is None:
                continue
            start = runs[variant.start, seed] if variant.start else None
            config = _config(experiment, condition, request, seed, start)
            used = prints[: variant.corpora or None]
            decided = [_differing(config, _OTHER_SETTINGS), used, dev, start.key if start else ""]
            key = hashlib.sha256(json.dumps(decided).encode()).hexdigest()[:16]
            config = replace(config, out=request.out / "runs" / key / "pretrain")
            tasks = experiment.tasks if request.task_data and condition.is_row else ()
            layers, known = experiment.layers and condition.is_row, request.known.get(key)
            runs[condition.name, seed] = PlannedRun(key, config, start, tasks, request.task_data, layers, known)
    return runs


def distinct(plans: Iterable[Runs]) -> list[PlannedRun]:
    """Every run once, with all that some experiment measures of it, starts first."""
    found: dict[str, PlannedRun] = {}
    for runs in plans:
        for run in runs.values():
            old = found.get(run.key, run)
            tasks = tuple(dict.fromkeys((*old.tasks, *run.tasks)))
            found[run.key] = replace(run, tasks=tasks, layers=old.layers or run.layers)
    return list(found.values())


def _config(
    experiment: Experiment, condition: Condition, request: Assignment, seed: int, start: PlannedRun | None
) -> PretrainConfig:
    variant, is_small = condition.at(request.scale) or Variant(), request.scale == "cpu"
    values: dict[str, Any] = read_toml(recipe_path("pretrain", RECIPES[request.scale]))
    length = "tokens" if is_small else "steps"
    whole = values[length]
    factor = (request.tokens or whole) / whole if is_small else 1.0
    changes = {**(experiment.settings if is_small else {}), **variant.change}
    if isinstance(budget := changes.get("budget"), str):
        changes["budget"] = f"{parse_duration(budget) * factor:g}s"
        values.pop(length)
    elif length not in changes:
        changes[length] = max(1, round(whole * factor * variant.share))
    if factor < 1.0:
        for key in _IN_PROPORTION:
            changes[key] = max(4, round(number(values, *key.split(".")) * factor))
    for key, value in changes.items():  # "a.b" is b of the table a
        *path, last = key.split(".")
        inner = values
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    data = [str(folder) for folder in request.data[: variant.corpora or None]]
    decided = {"data": data[0], "extra_data": data[1:], "seed": seed, "out": str(request.out)}
    if is_small:
        decided |= {"dev_data": [str(folder) for folder in request.dev], "resume": "auto"}
    if start is not None:
        decided["init_from"] = str(start.model)
    return from_dict(PretrainConfig, {**values, **decided}, f"{experiment.title}, {condition.name}")


def write_recipe(folder: Path, name: str, config: PretrainConfig) -> Path:
    """Write what differs from the defaults as TOML, without the folders of a machine; its path."""
    path = folder / f"{re.sub(r'[^a-z0-9.]+', '-', name.lower()).strip('-')}.toml"
    write_text(path, "\n".join(_differing(config, ("data", "extra_data", "out"))) + "\n")
    return path


def _differing(config: PretrainConfig, without: Container[str]) -> list[str]:
    """What differs from the defaults as lines of TOML: a setting added later changes none."""
    defaults = to_dict(PretrainConfig(config.data, config.out, steps=1)) | {"steps": None}
    values = {key: value for key, value in to_dict(config).items() if key not in without}
    return list(toml_lines(values, defaults))
