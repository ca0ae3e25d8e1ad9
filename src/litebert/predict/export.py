"""Export to ONNX with the accuracy on a dev set as a condition."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from litebert.common.errors import CheckpointError
from litebert.common.files import check_free
from litebert.interop.onnx.export import Int8Bits, OnnxReport, export_onnx
from litebert.predict.evaluate import DevCheck


@dataclass(frozen=True)
class DevDrop:
    """The score before and after an export."""

    metric: str
    before: float
    after: float


def export_checked(
    source: Path | str,
    out: Path | str,
    dev: DevCheck,
    *,
    int8: bool = False,
    int8_bits: Int8Bits = 7,
    depth: int | None = None,
    max_drop: float = math.inf,
) -> tuple[OnnxReport, DevDrop]:
    """Export a model, and keep it only if it loses at most a share ``max_drop`` of its score.

    The score before is that of a float32 export of the whole depth, so that no torch is needed.
    """
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

    report = export_onnx(source, out, int8=int8, int8_bits=int8_bits, depth=depth, accept=accept)
    return report, drops[0]
