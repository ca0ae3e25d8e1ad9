"""Where the numbers of a run go besides its own log: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from litebert.common.errors import ConfigError, suggestion
from litebert.common.files import read_json, write_json

_GROUPS = {
    "loss": ("loss", "mlm_loss", "sentence_loss", "bag_loss"),
    "accuracy": ("mlm_accuracy", "sentence_accuracy"),
    "optimizer": ("lr", "grad_norm", "nonfinite"),
    "speed": ("tokens_per_s", "step_s", "wait_share", "gemm_share", "bytes_per_step"),
    "progress": ("tokens", "elapsed_s", "progress", "epoch"),
    "schedule": ("layers", "length", "batch_size", "mask_rate"),
}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names}


class Tracker(NamedTuple):
    """One place that shows the numbers of a run; ``metrics.jsonl`` stays the truth."""

    log: Callable[[int, dict[str, float]], object]  # takes a step and its numbers, by their grouped names
    close: Callable[[], object]


def tag(name: str) -> str:
    """Return the name of a number with its group, under which boards fold their charts.

    >>> tag("dev_mlm_loss"), tag("lr"), tag("seen")
    ('dev/mlm_loss', 'optimizer/lr', 'train/seen')
    """
    if name.startswith("dev_"):
        return f"dev/{name.removeprefix('dev_')}"
    return f"{_GROUP_OF.get(name, 'train')}/{name}"


def tracker_names(listed: str) -> list[str]:
    """Return the names of a list with commas; an unknown one is a ConfigError."""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    for name in names:
        if name not in _MAKERS:
            raise ConfigError(f"track knows {', '.join(_MAKERS)}, not '{name}'.{suggestion(name, _MAKERS)}")
    return names


def open_trackers(listed: str, folder: Path, step: int, settings: Mapping[str, object]) -> list[Tracker]:
    """Return the trackers of a list, from a step on; TensorBoard only where it is installed."""
    found = []
    for name in tracker_names(listed):
        try:
            found.append(_MAKERS[name](folder, step, settings))
        except ModuleNotFoundError as error:
            if name != "tensorboard":
                raise ConfigError(f"track '{name}' needs the package {error.name}: `pip install {name}`") from None
    return found


def _tensorboard(folder: Path, step: int, settings: Mapping[str, object]) -> Tracker:
    board = import_module("torch.utils.tensorboard")
    writer: Any = board.SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def log(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return Tracker(log, writer.close)


def _wandb(folder: Path, step: int, settings: Mapping[str, object]) -> Tracker:
    # The same folder is the same run, also when it is resumed.
    name = sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    place = {"project": "litebert", "name": folder.name, "id": name, "dir": str(folder)}
    run: Any = import_module("wandb").init(**place, resume="allow", config=dict(settings))
    return Tracker(lambda step, values: run.log(values, step=step), run.finish)


def _mlflow(folder: Path, step: int, settings: Mapping[str, object]) -> Tracker:
    mlflow: Any = import_module("mlflow")
    mlflow.set_experiment("litebert")
    path = folder / "mlflow.json"
    if path.is_file():
        mlflow.start_run(run_id=str(read_json(path)["run_id"]))
    else:
        started = mlflow.start_run(run_name=folder.name)
        write_json(path, {"run_id": started.info.run_id})
        mlflow.log_params({key: str(value)[:250] for key, value in settings.items()})
    return Tracker(lambda step, values: mlflow.log_metrics(values, step=step), mlflow.end_run)


_MAKERS = {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}
