"""Rows of a user's files as examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from litebert.tasks.base import Answer, Example, Gold
from litebert.tasks.custom.config import CustomConfig
from litebert.tasks.forms.choices import option_index


class RowError(Exception):
    """What is wrong with a row: a reason (the same words for the same fault) and the value."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def parse_row(config: CustomConfig, row: Mapping[str, object], id: str, with_gold: bool) -> Example:
    """Return the example of one row.

    Raises:
        RowError: a column is missing or the label is not one of the task's.
    """
    columns = config.columns
    words: tuple[str, ...] = ()
    text = text_pair = None
    if columns.words is not None and config.kind == "token_classification":
        words = _texts(row, columns.words, None)
    else:
        text = _text(row, columns.text)
    if config.kind in ("multiple_choice", "span_extraction"):
        text_pair = _text(row, columns.question) if columns.question else None
    elif columns.text_pair is not None:
        text_pair = _text(row, columns.text_pair)
    options = _options(config, row) if config.kind == "multiple_choice" else ()
    example = Example(id, text or "", text_pair, options, words)
    if not with_gold:
        return example
    gold = _row_gold(config, row, example)
    return Example(id, text or "", text_pair, options, words, gold)


def read_gold(
    config: CustomConfig, value: object, example: Example
) -> int | float | tuple[int, ...]:
    """Return a label cell (or a prediction in the same words) as indices or a number."""
    if config.kind == "regression":
        try:
            number = float(str(value))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise RowError("unknown label", f"{value!r} is not a finite number")
        return number
    if config.kind == "multiple_choice":
        return _option_index(value, example.options)
    if config.kind == "multi_label":
        names = _split(value, config.label_separator)
        chosen = {_label_index(config, name) for name in names}
        return tuple(int(index in chosen) for index in range(len(config.labels)))
    if config.kind == "token_classification":
        tags = tuple(_label_index(config, tag) for tag in _split(value, None))
        if len(tags) != len(example.words):
            raise RowError("missing tags", f"{len(tags)} tags for {len(example.words)} words")
        return tags
    return _label_index(config, str(value))


def _row_gold(config: CustomConfig, row: Mapping[str, object], example: Example) -> Gold:
    if config.kind == "span_extraction":
        return _answers(config, row, example.text)
    return read_gold(config, _cell(row, config.columns.label), example)


def _answers(config: CustomConfig, row: Mapping[str, object], context: str) -> tuple[Answer, ...]:
    answer = _cell(row, config.columns.answer)
    text = "" if answer is None else str(answer)
    if not text:
        if config.unanswerable:
            return ()
        raise RowError("empty answer", "set unanswerable = true if questions may have none")
    start = context.find(text)
    if config.columns.answer_start is not None:
        given = _cell(row, config.columns.answer_start)
        try:
            wanted = int(str(given))
        except ValueError:
            raise RowError("bad answer start", f"{given!r} is not a whole number") from None
        start = wanted if wanted >= 0 and context.startswith(text, wanted) else start
    if start < 0:
        raise RowError("answer not in its passage", repr(text))
    return (Answer(text, start),)


def _options(config: CustomConfig, row: Mapping[str, object]) -> tuple[str, ...]:
    names = config.columns.options
    if len(names) == 1:
        options = _texts(row, names[0], None)
    else:
        options = tuple(_text(row, name) for name in names)
    if len(options) < 2:
        raise RowError("missing options", f"{len(options)} given, at least 2 needed")
    return options


def _option_index(value: object, options: Sequence[str]) -> int:
    """Return the option that a text, a letter or an index from 0 names."""
    text = str(value).strip()
    by_text = options.index(text) if text in options else None
    by_name = option_index(text, len(options))
    index = by_name if by_text is None else by_text
    if index is None:
        raise RowError("unknown label", f"{value!r} is no option's text, letter or index")
    if by_name not in (None, index):
        detail = f"{value!r} is the text of option {by_text} and the name of option {by_name}"
        raise RowError("ambiguous label", detail)
    return index


def _label_index(config: CustomConfig, value: str) -> int:
    value = value.strip()
    if value not in config.labels:
        raise RowError("unknown label", f"{value!r} is not one of {', '.join(config.labels)}")
    return config.labels.index(value)


def _cell(row: Mapping[str, object], column: str | None) -> object:
    assert column is not None, "CustomConfig.check saw to it that the column is named"
    if column not in row:
        raise RowError("missing column", f"'{column}'")
    return row[column]


def _text(row: Mapping[str, object], column: str | None) -> str:
    value = _cell(row, column)
    return "" if value is None else str(value)


def _texts(row: Mapping[str, object], column: str, separator: str | None) -> tuple[str, ...]:
    return _split(_cell(row, column), separator)


def _split(value: object, separator: str | None) -> tuple[str, ...]:
    """Return the entries of a list, or the parts of a text (None: at spaces)."""
    if isinstance(value, (list, tuple)):
        return tuple(str(item) for item in value)
    text = "" if value is None else str(value)
    return tuple(part.strip() for part in text.split(separator) if part.strip())
