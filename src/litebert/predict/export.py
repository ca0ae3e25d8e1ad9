"""Export to ONNX with the accuracy on a dev set as a condition."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import CheckpointError
from litebert.common.files import check_free
from litebert.interop.onnx.export import OnnxReport, export_onnx
from litebert.predict.evaluate import DevCheck


@dataclass(frozen=True)
class DevDrop:
    """The score before and after an export."""

    metric: str
    before: float
    after: float

    @property
    def share(self) -> float:
        """What was lost, as a share of the score before; negative if the export scores higher."""
        return (self.before - self.after) / abs(self.before) if self.before else 0.0

    def check(self, max_drop: float) -> None:
        """Raise CheckpointError if more than ``max_drop`` (a share) was lost."""
        if self.share > max_drop:
            raise CheckpointError(
                f"{self.metric} fell from {self.before:.4g} to {self.after:.4g}, more than "
                f"{max_drop:.0%}, so nothing was written; use --force to keep it"
            )


def export_checked(
    source: Path | str,
    out: Path | str,
    dev: DevCheck,
    *,
    int8: bool = False,
    depth: int | None = None,
    max_drop: float = math.inf,
) -> tuple[OnnxReport, DevDrop]:
    """Export a model, and keep the result only if it scores nearly as before.

    The score before is that of a float32 export of the whole depth, so that no torch is needed.

    Args:
        source: a model folder.
        out: the new folder.
        dev: the task and data to score on.
        int8: store and multiply int8.
        depth: layers to run.
        max_drop: share of the score that may be lost; infinite for any.
    """
    check_free(out)  # known before the dev set is scored, which takes long
    drops: list[DevDrop] = []
    with tempfile.TemporaryDirectory() as scratch:
        export_onnx(source, Path(scratch) / "float32")
        before = dev.score(Path(scratch) / "float32")

    def accept(folder: Path) -> None:
        drop = DevDrop(dev.task.main_metric, before, dev.score(folder))
        drops.append(drop)
        drop.check(max_drop)

    report = export_onnx(source, out, int8=int8, depth=depth, accept=accept)
    return report, drops[0]
