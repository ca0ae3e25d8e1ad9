"""What every report page shares: look, tiles, tables, line charts as SVG text, events, settings."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from litebert.report.log import Points, Record, number

_WIDTH, _HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 30
_COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)")

_STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2024; --dim: #68707a; --line: #dfe3e8;
  --card: #f6f7f9; --c1: #2563eb; --c2: #d9480f; --c3: #2b8a3e; --c4: #9c36b5; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --fg: #e6e9ed; --dim: #98a2ad;
  --line: #333a43; --card: #1d2228; --c1: #6ea8fe; --c2: #ff922b; --c3: #69db7c; --c4: #da77f2; } }
* { box-sizing: border-box; }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 1200px; padding: 24px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 17px; margin: 32px 0 8px; }
.dim { color: var(--dim); }
.tiles { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
  margin-top: 16px; }
.tiles div { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.tiles b { display: block; font-size: 22px; } .tiles span { color: var(--dim); font-size: 13px; }
.charts { display: grid; gap: 20px;
  grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); }
figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: 4px; }
svg { display: block; height: auto; width: 100%; }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
.legend { display: flex; flex-wrap: wrap; font-size: 13px; gap: 4px 14px; }
.legend i { border-radius: 2px; display: inline-block; height: 3px; margin-right: 5px;
  vertical-align: middle; width: 16px; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: 4px 10px 4px 0; text-align: left;
  vertical-align: top; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.t { white-space: pre-line; }
table.narrow, table.confusion { width: auto; }
.narrow td, .narrow th { padding-right: 28px; } .confusion td, .confusion th { padding: 6px 14px; }
.columns { display: flex; flex-wrap: wrap; gap: 0 64px; }
.wide { overflow-x: auto; }
mark { background: none; border-bottom: 2px solid var(--c2); color: inherit; font-weight: 600; }
pre { background: var(--card); border-radius: 8px; overflow: auto; padding: 12px; }
"""


def page(title: str, subtitle: str, parts: Sequence[str]) -> str:
    """A whole page that needs nothing from outside; its parts are HTML, empty ones are left out."""
    name = html.escape(title)
    body = [f"<h1>{name}</h1>", f'<p class="dim">{html.escape(subtitle)}</p>', *parts]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style></head><body>"
        + "\n".join(part for part in body if part)
        + "</body></html>\n"
    )


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def side_by_side(kind: Literal["tiles", "columns", "charts"], parts: Sequence[str]) -> str:
    """Parts beside each other; empty ones are left out."""
    kept = "".join(f"<div>{part}</div>" for part in parts if part)
    return f'<div class="{kind}">{kept}</div>' if kept else ""


def tiles(figures: Sequence[tuple[str, str]]) -> str:
    """Large figures with a small label each."""
    shown = [(html.escape(value), html.escape(label)) for value, label in figures]
    return side_by_side("tiles", [f"<b>{value}</b><span>{label}</span>" for value, label in shown])


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    numeric: Collection[int] = (),
    narrow: bool = False,
) -> str:
    """A table of plain texts, or nothing without rows; line breaks in them are kept.

    ``[MASK]`` stands out; headings that are all empty are not drawn; figures of ``numeric`` columns
    stand below each other; a ``narrow`` table is as wide as its content, not as the page.
    """
    if not rows:
        return ""
    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in headings)] if any(headings) else []
    for row in rows:
        texts = (html.escape(cell).replace("[MASK]", "<mark>[MASK]</mark>") for cell in row)
        cells = (f'<td class="{"n" if place in numeric else "t"}">{text}</td>' for place, text in enumerate(texts))
        lines.append("".join(cells))
    above = f"<h2>{html.escape(title)}</h2>" if title else ""
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    style = ' class="narrow"' if narrow else ""
    return f'{above}<div class="wide"><table{style}>{body}</table></div>'


def events_table(records: Sequence[Record], leave_out: Collection[str] = ()) -> str:
    """What happened while the run went on, such as a resume or a damaged checkpoint."""
    events = [r for r in records if "event" in r and r["event"] not in leave_out]
    shown = [e for e in events if e["event"] != "nonfinite"]
    rows = [(f"{number(e, 'step'):,.0f}", str(e["event"]), str(e.get("message", ""))) for e in shown]
    if len(shown) < len(events):
        rows.append(("", "nonfinite", f"{len(events) - len(shown)} steps not updated"))
    return table(("step", "", ""), rows, title="Events", numeric=(0,))


def settings(manifest: Record) -> str:
    """Everything that decided the run, folded away."""
    keys = ("config", "fingerprints", "seeds", "versions", "machine", "commit", "argv")
    shown = _without_nulls({key: manifest.get(key) for key in keys})
    text = html.escape(json.dumps(shown, indent=2, ensure_ascii=False))
    return f"<h2>Settings</h2><details><summary>everything</summary><pre>{text}</pre></details>"


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    name: str
    points: Points
    dashed: bool = False
    faint: bool = False


def chart(title: str, series: Sequence[Series], marks: Sequence[tuple[float, str]] = ()) -> str:
    """An SVG line chart, hand-made to follow the reader's light or dark theme.

    A faint line has the colour of the one after it; a dashed one is a reference, in grey.
    """
    drawn = [line for line in series if line.points]
    if not drawn:
        return ""
    values = [value for line in drawn for _, value in line.points]
    last_step = max(step for line in drawn for step, _ in line.points)
    levels = ticks(min(values), max(values), 5)
    low, high = min(levels[0], min(values)), max(levels[-1], max(values))
    last = max(1.0, last_step)

    def x(step: float) -> float:
        return _LEFT + step / last * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        up = (value - low) / ((high - low) or 1.0)
        return _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    shapes = []
    for value in levels:
        ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"'
        place = f'x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end"'
        shapes.append(f'<line {ends} stroke="var(--line)"/><text {place}>{value:g}</text>')
    for step in ticks(0.0, last_step, 6):
        if step <= last:
            place = f'x="{x(step):.1f}" y="{_HEIGHT - 10}" text-anchor="middle"'
            shapes.append(f"<text {place}>{_short(step)}</text>")
    shapes += [_mark(x(step), f"{label} (step {step:,.0f})") for step, label in marks]
    legend, count = [], 0
    for line in drawn:
        colour = "var(--dim)" if line.dashed else _COLOURS[count % len(_COLOURS)]
        count += not (line.faint or line.dashed)
        name, end = html.escape(line.name), line.points[-1][1]
        places = [(x(step), y(value)) for step, value in line.points]
        shapes.append(_line(line, places, colour, f"{name}: {end:.5g} at the end"))
        if not line.faint:
            legend.append(f'<span><i style="background:{colour}"></i>{name} <b>{end:.4g}</b></span>')
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(shapes)}</svg>'
        f'<div class="legend">{"".join(legend)}</div></figure>'
    )


def _mark(x: float, label: str) -> str:
    # On the right of the drawing a label stands before its line, in order not to leave it.
    place, anchor = (x - 4, "end") if x > 0.6 * _WIDTH else (x + 4, "start")
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
        f'stroke="var(--dim)" stroke-dasharray="2 3"/><text x="{place:.1f}" '
        f'y="{0.55 * _HEIGHT:.0f}" text-anchor="{anchor}">{html.escape(label)}</text>'
    )


def _line(line: Series, places: Sequence[tuple[float, float]], colour: str, title: str) -> str:
    if len(places) == 1:  # a line of one point is invisible
        ((x, y),) = places
        shape = f'circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"'
        return f"<{shape}><title>{title}</title></circle>"
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    style = ' stroke-dasharray="6 4"' if line.dashed else ""
    style += ' stroke-width="1" opacity="0.3"' if line.faint else ' stroke-width="1.8"'
    shape = f'polyline points="{path}" fill="none" stroke="{colour}"{style}'
    return f"<{shape}><title>{title}</title></polyline>"


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round values that cover a range: of 0 to 950 in five steps 0, 200, ... 1000."""
    span = high - low
    if not 1e-9 * max(1.0, abs(low)) < span < math.inf:  # too narrow for labels that differ
        return [low, low + (abs(low) or 1.0)]
    raw = span / count
    scale = 10.0 ** math.floor(math.log10(raw))
    step = scale * min((1, 2, 5, 10), key=lambda factor: abs(factor * scale - raw))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _short(value: float) -> str:
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
