"""Where the numbers of a run go besides its own log: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from litebert.common.errors import ConfigError, suggestion
from litebert.common.files import read_json, write_json

_MLFLOW_FILE = "mlflow.json"
_GROUPS = {
    "loss": ("loss", "mlm_loss", "sentence_loss", "bag_loss"),
    "accuracy": ("mlm_accuracy", "sentence_accuracy"),
    "optimizer": ("lr", "grad_norm", "nonfinite"),
    "speed": ("tokens_per_s", "step_s", "wait_share", "gemm_share", "bytes_per_step"),
    "progress": ("tokens", "elapsed_s", "progress", "epoch"),
    "schedule": ("layers", "length", "batch_size", "mask_rate"),
}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names}


class Tracker(Protocol):
    """One place that shows the numbers of a run; ``metrics.jsonl`` stays the truth."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of a step, by their grouped names."""

    def close(self) -> None:
        """Finish writing."""


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
            known = ", ".join(_MAKERS)
            raise ConfigError(f"track knows {known}, not '{name}'.{suggestion(name, _MAKERS)}")
    return names


def open_trackers(
    listed: str, folder: Path, step: int, settings: Mapping[str, object]
) -> list[Tracker]:
    """Return the trackers of a list, from a step on; TensorBoard only where it is installed."""
    found = []
    for name in tracker_names(listed):
        try:
            found.append(_MAKERS[name](folder, step, settings))
        except ModuleNotFoundError as error:
            if name != "tensorboard":
                raise ConfigError(
                    f"track '{name}' needs the package {error.name}: `pip install {name}`"
                ) from None
    return found


class _TensorBoard:
    def __init__(self, folder: Path, step: int, settings: Mapping[str, object]) -> None:
        board = import_module("torch.utils.tensorboard")
        self._writer: Any = board.SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    def __init__(self, folder: Path, step: int, settings: Mapping[str, object]) -> None:
        # The same folder is the same run, also when it is resumed.
        name = sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        self._run: Any = import_module("wandb").init(
            project="litebert", name=folder.name, id=name, resume="allow", dir=str(folder),
            config=dict(settings),
        )  # fmt: skip

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class _Mlflow:
    def __init__(self, folder: Path, step: int, settings: Mapping[str, object]) -> None:
        self._mlflow: Any = import_module("mlflow")
        self._mlflow.set_experiment("litebert")
        path = folder / _MLFLOW_FILE
        if path.is_file():
            self._mlflow.start_run(run_id=str(read_json(path)["run_id"]))
            return
        started = self._mlflow.start_run(run_name=folder.name)
        write_json(path, {"run_id": started.info.run_id})
        self._mlflow.log_params({key: str(value)[:250] for key, value in settings.items()})

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        self._mlflow.end_run()


_MAKERS: dict[str, Callable[[Path, int, Mapping[str, object]], Tracker]] = {
    "tensorboard": _TensorBoard,
    "wandb": _Wandb,
    "mlflow": _Mlflow,
}
