"""The error family: one line for people, with what is wrong, the value, and the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata


class LitebertError(Exception):
    """An error that is the user's to fix: printed as one line, exit status 2, no traceback."""


class ConfigError(LitebertError):
    """A setting that does not exist, has the wrong type, or contradicts another."""


class DataError(LitebertError):
    """Input text, shards or task files that cannot be read as what they claim to be."""


class MissingFileError(DataError):
    """A file of a task that is not there at all: some of them may be missing."""


class CheckpointError(LitebertError):
    """A model folder or checkpoint that is missing, damaged, or of another shape."""


class InputError(LitebertError):
    """A request (text, position, name) that the model cannot answer."""


@contextmanager
def blame(source: object, kind: type[LitebertError] = DataError) -> Iterator[None]:
    """Say of a file that it is damaged where its values have another form than was written.

    >>> with blame("state.json"):
    ...     int({}["step"])
    Traceback (most recent call last):
    litebert.common.errors.DataError: state.json is damaged or of another program: KeyError 'step'
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__} {error}".partition("\n")[0]
        raise kind(f"{source} is damaged or of another program: {reason}") from error


@contextmanager
def needs(extra: str, what: str, kind: type[LitebertError] = DataError) -> Iterator[None]:
    """Say, around an import, what brings the package that is not installed."""
    try:
        yield
    except ModuleNotFoundError:
        raise kind(f"{what} needs {install_command(extra)}") from None


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest known word, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""


def install_command(extra: str) -> str:
    """Return the command that brings the packages of an extra, in the marks that messages use.

    >>> install_command("onnx")  # a bare source tree has no metadata with extras: '.[onnx]'
    "`pip install 'litebert[onnx]'`"
    """
    return f"`pip install '{'litebert' if _metadata() else '.'}[{extra}]'`"


def extra_of(package: str) -> str:
    """Return the extra that brings an imported package; ``all`` if none is known to.

    >>> extra_of("prometheus_client"), extra_of("sklearn")
    ('serve', 'train')
    """
    wanted = {"sklearn": "scikit-learn"}.get(package, package).replace("_", "-")
    for line in _metadata():
        name, _, extra = line.partition("extra ==")
        if extra and re.split(r"[<>=!~;\[ ]", name, maxsplit=1)[0].replace("_", "-") == wanted:
            return extra.strip(" \"')")
    return "all"


def _metadata() -> list[str]:
    """Return the requirements of the installed litebert, none if it is not installed."""
    try:
        return metadata.requires("litebert") or []
    except metadata.PackageNotFoundError:
        return []
