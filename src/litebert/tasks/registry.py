"""Task names of the command line."""

from __future__ import annotations

from pathlib import Path

from litebert.common.errors import ConfigError, DataError, suggestion
from litebert.tasks.base import Task
from litebert.tasks.benchmarks.glue import GLUE_TASKS, GlueTask
from litebert.tasks.benchmarks.race import RACE_TASKS
from litebert.tasks.benchmarks.squad import SQUAD_TASKS
from litebert.tasks.custom import CustomTask
from litebert.tasks.forms.requests import Columns

TASK_NAMES = (*GLUE_TASKS, *SQUAD_TASKS, *RACE_TASKS)


def find_task(name: str, data: Path | None = None) -> Task:
    """Return a benchmark task by name, or the task that a TOML file describes; ``data``: where its files are."""
    known: dict[str, Task] = {**GLUE_TASKS, **SQUAD_TASKS, **RACE_TASKS}
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return CustomTask.load(path, data)
    if path.suffix:
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        near = suggestion(path.name, (file.name for file in beside))
        raise ConfigError(f"there is no task file or table {path}.{near}")
    near = suggestion(name, TASK_NAMES) or f" Known: {', '.join(TASK_NAMES)}, or a .toml file."
    raise ConfigError(f"unknown task '{name}'.{near}")


def data_folder(task: Task, data: Path | None) -> Path:
    """Return where a task's files are; a task file that names its own needs no ``--data``."""
    if data is not None:
        return data
    if isinstance(task, CustomTask):
        return task.folder
    raise DataError(f"task {task.name} needs --data: the folder (or file) with its data")


def input_columns(task: Task) -> Columns:
    """Return the columns that a task's own files have, for rows to predict."""
    if isinstance(task, CustomTask):
        return task.columns
    if isinstance(task, GlueTask):
        names = {"text": task.text, "text_pair": task.text_pair}
        return {key: columns[0] for key, columns in names.items() if columns}
    return {}
