"""Line charts as SVG text."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from litebert.report.log import Points

_WIDTH, _HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 30
_COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)")


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    name: str
    points: Points
    dashed: bool = False
    faint: bool = False


def chart(title: str, series: Sequence[Series], marks: Sequence[tuple[float, str]] = ()) -> str:
    """An SVG line chart, hand-made to follow the reader's light or dark theme."""
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

    shapes = [_level(y(value), value) for value in levels]
    for step in ticks(0.0, last_step, 6):
        if step <= last:
            place = f'x="{x(step):.1f}" y="{_HEIGHT - 10}" text-anchor="middle"'
            shapes.append(f"<text {place}>{_short(step)}</text>")
    shapes += [_mark(x(step), f"{label} (step {step:,.0f})") for step, label in marks]
    legend = []
    for line, colour in zip(drawn, _colours(drawn), strict=True):
        name, end = html.escape(line.name), line.points[-1][1]
        places = [(x(step), y(value)) for step, value in line.points]
        shapes.append(_line(line, places, colour, f"{name}: {end:.5g} at the end"))
        if not line.faint:
            swatch = f'<i style="background:{colour}"></i>'
            legend.append(f"<span>{swatch}{name} <b>{end:.4g}</b></span>")
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(shapes)}</svg>'
        f'<div class="legend">{"".join(legend)}</div></figure>'
    )


def _level(y: float, value: float) -> str:
    ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
    place = f'x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end"'
    return f'<line {ends} stroke="var(--line)"/><text {place}>{value:g}</text>'


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


def _colours(lines: Sequence[Series]) -> list[str]:
    """A faint line has the colour of the one after it; a dashed one is a reference, in grey."""
    found, number = [], 0
    for line in lines:
        found.append("var(--dim)" if line.dashed else _COLOURS[number % len(_COLOURS)])
        number += not (line.faint or line.dashed)
    return found


def _short(value: float) -> str:
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
