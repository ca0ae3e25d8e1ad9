"""Whether a model may stop at an earlier layer: only if it was trained to, unless forced."""

from __future__ import annotations

from pathlib import Path

from litebert.common.errors import InputError
from litebert.interop.folder import load_config, resolve
from litebert.tasks.task_file import TaskFile


def check_depth(folder: Path | str, depth: int | None, force: bool = False) -> None:
    """Raise InputError if a model cannot, or was not trained to, answer after so many layers.

    Args:
        folder: a model folder.
        depth: layers to run; None runs all, which every model can.
        force: allow a depth that the model was not trained for, if it has the layers.

    Example:
        >>> check_depth("runs/sst2/model", 6)
    """
    if depth is None:
        return
    folder = resolve(folder)
    num_layers = load_config(folder).num_layers
    if not 1 <= depth <= num_layers:
        raise InputError(f"depth {depth} is outside 1 to {num_layers}")
    task = TaskFile.read(folder)
    trained = task.depths if task is not None and task.depths else (num_layers,)
    if depth == num_layers or depth in trained or force:
        return
    known = ", ".join(map(str, trained))
    raise InputError(
        f"{folder} was not trained to answer at depth {depth}, only at {known}; fine-tune it with "
        "--train-exits, or use --force-depth to see what comes out"
    )
