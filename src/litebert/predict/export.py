"""Export to ONNX with the accuracy on a dev set as a condition."""

from __future__ import annotations

import tempfile
from pathlib import Path

from litebert.common.files import check_free
from litebert.interop.onnx.export import OnnxReport, export_onnx
from litebert.predict.dev_check import DevDrop, DevSet
from litebert.predict.predictor import Predictor

DEFAULT_MAX_DROP = 0.02
"""Share of the dev score that int8 may cost."""


def export_checked(
    source: Path | str,
    out: Path | str,
    dev: DevSet,
    *,
    int8: bool = False,
    depth: int | None = None,
    max_drop: float = DEFAULT_MAX_DROP,
    force: bool = False,
) -> tuple[OnnxReport, DevDrop]:
    """Export a model, and keep the result only if it scores nearly as before.

    The score before is that of a float32 export of the whole depth, so that no torch is needed.

    Args:
        source: a model folder.
        out: the new folder.
        dev: the task and data to score on.
        int8: store and multiply int8.
        depth: layers to run.
        max_drop: share of the score that may be lost.
        force: keep the export whatever it lost.
    """
    check_free(out)  # known before the dev set is scored, which takes long
    drops: list[DevDrop] = []
    with tempfile.TemporaryDirectory() as scratch:
        export_onnx(source, Path(scratch) / "float32")
        before = dev.score(Predictor.load(Path(scratch) / "float32"))

    def accept(folder: Path) -> None:
        drop = DevDrop(dev.task.main_metric, before, dev.score(Predictor.load(folder)))
        drops.append(drop)
        if not force:
            drop.check(max_drop)

    report = export_onnx(source, out, int8=int8, depth=depth, accept=accept)
    return report, drops[0]
