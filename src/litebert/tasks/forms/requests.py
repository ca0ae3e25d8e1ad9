"""Fields of a JSON request and cells of a user's file, with one-line errors for what is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


UNKNOWN_LABEL = "unknown label"
Columns = Mapping[str, str | tuple[str, ...] | None]
"""What a form asks for -> the column (or columns) that hold it."""


class RowError(Exception):
    """What is wrong with a row: a reason (the same words for the same fault) and the value."""

    def __init__(self, reason: str, detail: str, value: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.value = reason, detail, value


@dataclass(frozen=True)
class Cells:
    """A row of a user's file, by the task's names of columns; RowError if one is missing."""

    row: Mapping[str, object]
    columns: Columns
    separator: str = ","  # between the labels of a cell that is not a list

    def has(self, name: str) -> bool:
        """Whether the task names such a column."""
        return bool(self.columns.get(name))

    def value(self, name: str) -> object:
        """Return a cell as it is."""
        column = self.columns[name]
        assert isinstance(column, str), "the task file was checked for it"
        return self._cell(column)

    def text(self, name: str) -> str:
        """Return a cell as text; empty if there is nothing in it."""
        return _text(self.value(name))

    def optional_text(self, name: str) -> str | None:
        """Return a cell as text, or None if the task names no such column."""
        return self.text(name) if self.has(name) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list from one cell (a text is cut at spaces), or from a column for each."""
        columns = self.columns[name]
        names = (columns,) if isinstance(columns, str) else columns or ()
        return split_cell(self._cell(names[0]), None) if len(names) == 1 else self.each(name)

    def each(self, name: str) -> tuple[str, ...]:
        """Return the texts of several columns, one each; none if the task names no such column."""
        return tuple(_text(self._cell(column)) for column in self.columns.get(name) or ())

    def _cell(self, column: str) -> object:
        if column not in self.row:
            raise RowError("missing column", f"'{column}'")
        return self.row[column]


def split_cell(value: object, separator: str | None) -> tuple[str, ...]:
    """Return the entries of a list, or the parts of a text (None: at spaces)."""
    if isinstance(value, (list, tuple)):
        return tuple(str(item) for item in value)
    return tuple(part.strip() for part in _text(value).split(separator) if part.strip())


def label_index(labels: Sequence[str], value: str) -> int:
    """Return the index of a label's name."""
    value = value.strip()
    if value not in labels:
        if not value:
            raise RowError("missing label", "the cell is empty")
        shown = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
        raise RowError(UNKNOWN_LABEL, f"{value!r} is not one of {shown}", value)
    return labels.index(value)


def finite_number(value: object) -> float:
    """Return a cell as a number; ``4,5`` is one, ``1,234`` is not clear."""
    text = str(value).strip()
    if re.fullmatch(r"[-+]?\d+,(\d{1,2}|\d{4,})", text):
        text = text.replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RowError(UNKNOWN_LABEL, f"{value!r} is not a finite number", text)
    return number


def _text(value: object) -> str:
    return "" if value is None else str(value)
