"""The model that comes with the package, for a first answer without any download."""

from __future__ import annotations

from pathlib import Path

from litebert.common.errors import CheckpointError

BUNDLED = "bundled"
"""Its name wherever a model folder is asked for; the default of the commands that use a model."""


def bundled_model() -> Path:
    """Return the folder of the bundled model."""
    folder = bundled_folder()
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            "no model was named and none comes with this copy of litebert; give a model folder "
            "(`litebert demo` makes demo/pretrain/model)"
        )
    return folder


def bundled_folder() -> Path:
    """Return where the bundled model belongs, whether it is there or not."""
    return Path(__file__).resolve().parent / "model"
