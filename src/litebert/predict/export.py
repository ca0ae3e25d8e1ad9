"""Export to ONNX with the accuracy on a dev set as a condition."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from litebert.common.errors import CheckpointError, ConfigError, DataError
from litebert.common.files import check_free
from litebert.interop.onnx.export import Int8Bits, OnnxReport, export_onnx
from litebert.model.config import Pooling
from litebert.predict.evaluate import evaluate_models
from litebert.tasks.base import Task
from litebert.tasks.custom import CustomTask
from litebert.tasks.registry import data_folder, find_task


@dataclass(frozen=True)
class DevCheck:
    """A task with the folder of its data: what an export is judged by."""

    task: Task
    data: Path

    @classmethod
    def parse(cls, text: str) -> DevCheck:
        """Read ``TASK:DIR``; a task file that names its own files needs no folder."""
        name, separator, folder = text.partition(":")
        data = Path(folder) if folder else None
        task = find_task(name, data)
        if data is None and (separator or not isinstance(task, CustomTask)):
            raise ConfigError(f"--dev {text!r} should be TASK:DIR, such as sst2:glue/SST-2")
        return cls(task, data_folder(task, data))

    def score(self, model: Path) -> float:
        """Return the task's main metric of a model folder on the first labelled split."""
        split = self.task.eval_splits[0]
        (found,) = evaluate_models(self.task, [str(model)], self.data, split=split)
        if not found.scores:
            raise DataError(f"{self.data}: {split} of {self.task.name} has no labels to score by")
        return found.scores[self.task.main_metric]


@dataclass(frozen=True)
class DevDrop:
    """The score before and after an export."""

    metric: str
    before: float
    after: float


def export_checked(
    source: Path | str,
    out: Path | str,
    dev: DevCheck | None,
    *,
    int8: bool = False,
    int8_bits: Int8Bits = 7,
    depth: int | None = None,
    pooling: Pooling | None = None,
    max_drop: float = math.inf,
) -> tuple[OnnxReport, DevDrop | None]:
    """Export a model, and keep it only if it loses at most a share ``max_drop`` of its score; no ``dev``: unscored.

    The score before is that of a float32 export of the whole depth, so that no torch is needed.
    """
    export = partial(export_onnx, source, out, int8=int8, int8_bits=int8_bits, depth=depth, pooling=pooling)
    if dev is None:
        return export(), None
    check_free(out)  # known before the dev set is scored, which takes long
    drops: list[DevDrop] = []
    with tempfile.TemporaryDirectory() as scratch:
        export_onnx(source, Path(scratch) / "float32")
        before = dev.score(Path(scratch) / "float32")

    def accept(folder: Path) -> None:
        metric, after = dev.task.main_metric, dev.score(folder)
        drops.append(DevDrop(metric, before, after))
        lost = (before - after) / abs(before) if before else 0.0
        if lost > max_drop:
            raise CheckpointError(
                f"{metric} fell from {before:.4g} to {after:.4g}, more than {max_drop:.0%}, so "
                "nothing was written; use --force to keep it"
            )

    return export(accept=accept), drops[0]
