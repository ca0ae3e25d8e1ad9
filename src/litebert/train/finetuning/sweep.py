"""Sweeps: every task with every setting of a grid, resumable, one table at the end."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from litebert.bundled import BUNDLED
from litebert.common.config import from_dict, to_dict
from litebert.common.errors import ConfigError, LitebertError, suggestion
from litebert.common.files import read_json, write_json, write_text
from litebert.common.ownership import Inputs, owned_folder
from litebert.common.runs import is_main_process
from litebert.train.finetuning.config import FinetuneConfig

if TYPE_CHECKING:
    from litebert.dist.runtime import Process
    from litebert.train.finetuning.results import FinetuneResult

SWEEP_FILE = "sweep.json"
"""What a sweep was told to do; it makes the folder the sweep's."""
_DECIDED_BY_THE_SWEEP = ("task", "out", "data", "seeds", "resume")


@dataclass(frozen=True)
class SweepConfig:
    """Which runs to make."""

    tasks: tuple[str, ...]
    """tasks or task files"""
    _: KW_ONLY
    out: Path
    """folder for the runs and the table"""
    model: str = BUNDLED
    """model folder, run folder or hub name to start from; default: the small bundled model"""
    start_from: tuple[str, ...] = ()
    """tasks that start from another one's model, as the paper's RTE, STS-B and MRPC do: rte=mnli, \
for a task that comes before in the sweep, or rte=FOLDER"""
    data: Path | None = None
    """folder with the tasks' files"""
    grid: tuple[str, ...] = ()
    """a setting of finetune and its values, such as lr=1e-4,3e-4; several --grid are combined"""
    seeds: int = 1
    """seeds of each combination"""
    strict: bool = False
    """stop at the first bad row, and at the first run that fails"""


@dataclass(frozen=True)
class SweepRow:
    """One line of the table."""

    task: str
    settings: dict[str, object]  # what the grid chose
    metric: str = ""
    median: float | None = None  # of the metric on dev, over the seeds; None if the run failed
    spread: float = 0.0  # largest minus smallest over the seeds
    baseline: float | None = None  # of always saying the same
    seconds: float = 0.0  # time in training loops, all seeds
    tokens: int = 0
    failure: str = ""


@contextmanager
def owned_sweep(config: SweepConfig, process: Process) -> Iterator[None]:
    """Own the folder of a sweep: process 0 does, and all processes stop if it is refused."""
    inputs: Inputs = [("--model", config.model), ("--data", config.data), *(("the task file", t) for t in config.tasks)]
    mark = config.out / SWEEP_FILE
    with ExitStack() as held:

        def own() -> None:
            owned = owned_folder(config.out, lambda _: mark.is_file() and "tasks" in read_json(mark), inputs)
            held.enter_context(owned)
            write_json(mark, to_dict(config))

        process.on_main(own)
        yield


def sweep(config: SweepConfig, run: Callable[[FinetuneConfig], FinetuneResult]) -> tuple[list[SweepRow], int]:
    """Make all runs and tables; the rows so far, and the signal that stopped the sweep, or 0."""
    names = [Path(task).stem for task in config.tasks]
    if len(set(names)) < len(names):
        raise ConfigError(f"tasks of a sweep need names of their own, not {', '.join(names)}")
    rows: list[SweepRow] = []
    for task, settings in itertools.product(config.tasks, combinations(config.grid)):
        one = run_config(config, task, settings)
        try:
            result = run(one)
        except LitebertError as error:
            if config.strict:
                raise
            rows.append(SweepRow(task, settings, failure=str(error)))
        else:
            if result.interrupted_by:
                return rows, result.interrupted_by
            median, spread = result.scores[metric := result.metric], result.spread.get(metric, 0.0)
            figures = (float(median), spread, result.baseline.get(metric))
            rows.append(SweepRow(task, settings, metric, *figures, result.seconds, result.tokens))
        if is_main_process():
            write_json(config.out / "table.json", {"rows": [vars(row) for row in rows]})
            write_text(config.out / "table.md", sweep_table(rows))
    return rows, 0


def combinations(grid: Sequence[str]) -> list[dict[str, object]]:
    """Return every combination of the grid's values; one empty one without a grid."""
    known = [f.name for f in fields(FinetuneConfig) if f.name not in _DECIDED_BY_THE_SWEEP]
    axes = []
    for axis in grid:
        name, _, values = axis.partition("=")
        name = name.strip().replace("-", "_")
        if not values:
            raise ConfigError(f"--grid {axis!r} should be SETTING=VALUE,VALUE, such as lr=1e-4,3e-4")
        if name not in known:
            raise ConfigError(f"--grid: unknown setting '{name}'.{suggestion(name, known)}")
        axes.append([(name, _value(text.strip())) for text in values.split(",")])
    return [dict(chosen) for chosen in itertools.product(*axes)]


def run_config(config: SweepConfig, task: str, settings: Mapping[str, object]) -> FinetuneConfig:
    """Return the configuration of one run; its folder is named after task and settings."""
    parts = [f"{name}={_short(value)}" for name, value in settings.items()]
    out = config.out / Path(task).stem / ("_".join(parts) or "run")
    values = {"task": task, "model": _start_of(config, task, settings), "out": out, "resume": "auto", **settings}
    shared = {name: getattr(config, name) for name in ("data", "seeds", "strict")}
    return from_dict(FinetuneConfig, shared | values, "--grid")


def _start_of(config: SweepConfig, task: str, settings: Mapping[str, object]) -> str:
    """The model that a task starts from: the sweep's, a folder, or what an earlier task left."""
    starts = dict(entry.partition("=")[::2] for entry in config.start_from)
    for name, start in starts.items():
        if name not in config.tasks or not start:
            usage = f"write TASK=TASK or TASK=FOLDER, for a task of the sweep: {', '.join(config.tasks)}"
            raise ConfigError(f"--start-from {name}={start}: {usage}")
    start = starts.get(task, config.model)
    if task not in starts or start not in config.tasks:
        return start
    if config.tasks.index(start) >= config.tasks.index(task):
        raise ConfigError(f"--start-from {task}={start}: name {start} before {task} in the sweep")
    return str(run_config(config, start, settings).out / "model")


def sweep_table(rows: Sequence[SweepRow]) -> str:
    """Return the rows as a Markdown table; settings that all runs share stand below it."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.settings.items():
            values.setdefault(name, set()).add(_short(value))
    names = [name for name, found in values.items() if len(found) > 1]
    shared = [f"{name} {found.pop()}" for name, found in values.items() if name not in names]
    header = ["task", *names, "metric", "median", "spread", "baseline", "seconds", "tokens"]
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    for row in rows:
        settings = [_short(row.settings.get(name, "")) for name in names]
        figures = [f"failed: {row.failure}", "", "", "", "", ""]
        if row.median is not None:
            baseline, cost = "" if row.baseline is None else f"{row.baseline:.4g}", f"{row.seconds:,.0f}"
            figures = [row.metric, f"{row.median:.4g}", f"{row.spread:.3g}", baseline, cost, f"{row.tokens:,}"]
        lines.append(f"| {' | '.join([row.task, *settings, *figures])} |")
    if shared:
        lines += ["", f"All runs: {', '.join(shared)}."]
    return "\n".join(lines) + "\n"


def _value(text: str) -> object:
    """Read a number or a truth value; anything else is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _short(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.replace("/", "-")
