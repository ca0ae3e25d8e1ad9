"""Where a task model goes wrong, as HTML: its confusion matrix and its worst mistakes."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from litebert.report.log import Record
from litebert.report.page import table
from litebert.tasks.base import Form
from litebert.tasks.forms.kinds import FORMS


def confusion_table(content: Record) -> str:
    """The confusion matrix: a row per gold label with the share of each predicted label."""
    confusion = content.get("confusion")
    if not isinstance(confusion, Mapping):
        return ""
    labels, matrix = confusion["labels"], confusion["matrix"]
    head = "".join(f"<th>{html.escape(str(label))}</th>" for label in labels)
    rows = []
    for label, counts in zip(labels, matrix, strict=True):
        total = sum(counts)
        cells = "".join(_cell(count, total, labels[i] == label) for i, count in enumerate(counts))
        rows.append(
            f"<tr><th>{html.escape(str(label))}</th>{cells}<td class='n'>{total:,}</td></tr>"
        )
    return (
        "<h2>Confusion</h2>"
        f'<p class="dim">Rows: the gold label; columns: what the model says, on {_split(content)}.'
        "</p>"
        f'<div class="wide"><table class="confusion"><tr><th></th>{head}<th>all</th></tr>'
        f"{''.join(rows)}</table></div>"
    )


def mistakes_table(content: Record) -> str:
    """The wrong predictions the model was surest of."""
    worst = content.get("worst")
    if not isinstance(worst, Sequence) or not worst:
        return ""
    rows = [
        [_text(row), _said(row["gold"]), _said(row["predicted"]), f"{row['badness']:.3g}"]
        for row in worst
    ]
    form = {str(kind): form for kind, form in FORMS.items()}.get(str(content.get("kind")), Form)
    headings = [f"{_split(content)} text", "gold", "the model says", form.how_bad]
    return "<h2>Worst mistakes</h2>" + table(headings, rows, numeric=(3,))


def _cell(count: int, total: int, is_right: bool) -> str:
    share = count / total if total else 0.0
    colour = "var(--c3)" if is_right else "var(--c2)"
    return (
        f'<td class="n" style="background:color-mix(in srgb, {colour} {55 * share:.0f}%, '
        f'transparent)">{count:,} <span class="dim">{share:.0%}</span></td>'
    )


def _text(row: Record) -> str:
    text, pair = str(row.get("text", "")).strip(), row.get("text_pair")
    return text if pair is None else f"{text}\n{str(pair).strip()}"


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return " / ".join(dict.fromkeys(map(str, value))) or "(none)"
    return str(value) or "(no answer)"


def _split(content: Record) -> str:
    return str(content.get("split", "dev"))
