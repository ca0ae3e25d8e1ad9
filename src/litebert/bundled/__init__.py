"""The models that come with the package, for a first answer without any download."""

from __future__ import annotations

from pathlib import Path

from litebert.common.errors import CheckpointError

BUNDLED = "bundled"
"""A name wherever a model folder is asked for; the default of the commands that use a model."""
SENTENCES = "bundled-sentences"
"""The same for the model of sentence vectors, the default of `embed`."""
_FOLDERS = {BUNDLED: "model", SENTENCES: "sentences"}


def is_bundled(name: str) -> bool:
    """Whether a name is that of a model that comes with the package."""
    return name in _FOLDERS


def bundled_model(name: str = BUNDLED) -> Path:
    """Return the folder of a bundled model."""
    folder = bundled_folder(name)
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            "no model was named and none comes with this copy of litebert; give a model folder "
            "(`litebert demo` makes demo/pretrain/model)"
        )
    return folder


def bundled_folder(name: str = BUNDLED) -> Path:
    """Return where a bundled model belongs, whether it is there or not."""
    return Path(__file__).resolve().parent / _FOLDERS[name]
