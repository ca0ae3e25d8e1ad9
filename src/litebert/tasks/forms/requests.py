"""Fields of a JSON request, with one-line errors for what is missing."""

from __future__ import annotations

from collections.abc import Mapping

from litebert.common.errors import InputError, suggestion


def required_text(record: Mapping[str, object], name: str) -> str:
    """Return a text that must be there and not be blank."""
    value = record.get(name)
    if value is None:
        near = suggestion(name, record) or f" It has: {', '.join(record) or 'nothing'}."
        raise InputError(f"the request has no '{name}'.{near}")
    if not isinstance(value, str):
        raise InputError(f"'{name}' is {value!r}; it should be a text")
    if not value.strip():
        raise InputError(f"'{name}' is empty; write some text")
    return value


def optional_text(record: Mapping[str, object], name: str) -> str | None:
    """Return a text if it is given."""
    return None if record.get(name) is None else required_text(record, name)


def required_list(record: Mapping[str, object], name: str, at_least: int) -> tuple[str, ...]:
    """Return a list of texts with a least number of entries."""
    value = record.get(name)
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise InputError(f"'{name}' is {value!r}; it should be a list of texts")
    if len(value) < at_least:
        raise InputError(f"'{name}' has {len(value)} entries; give at least {at_least}")
    return tuple(value)
