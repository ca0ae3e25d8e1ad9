"""Line charts as SVG text."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class _Frame(NamedTuple):
    """The largest step and the range of values of a chart: where a point lies in its drawing."""

    last: float
    low: float
    high: float

    def x(self, step: float) -> float:
        return _LEFT + step / self.last * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        up = (value - self.low) / ((self.high - self.low) or 1.0)
        return _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)


def chart(title: str, series: Sequence[Series], marks: Sequence[tuple[float, str]] = ()) -> str:
    """An SVG line chart over steps with axes and a legend.

    Hand-made, so that a report needs no plotting library and follows the reader's light or dark
    theme.
    """
    drawn = [line for line in series if line.points]
    if not drawn:
        return ""
    steps, values = zip(*(point for line in drawn for point in line.points), strict=True)
    levels = ticks(min(values), max(values), 5)
    low, high = min(levels[0], min(values)), max(levels[-1], max(values))
    frame = _Frame(max(1.0, max(steps)), low, high)
    coloured = list(zip(drawn, _colours(drawn), strict=True))
    shapes = [
        *(_level(frame, value) for value in levels),
        *(_step(frame, step) for step in ticks(0.0, max(steps), 6) if step <= frame.last),
        *(_mark(frame, step, label) for step, label in marks),
        *(_line(frame, line, colour) for line, colour in coloured),
    ]
    legend = [
        f'<span><i style="background:{colour}"></i>{html.escape(line.name)} '
        f"<b>{line.points[-1][1]:.4g}</b></span>"
        for line, colour in coloured
        if not line.faint
    ]
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(shapes)}</svg>'
        f'<div class="legend">{"".join(legend)}</div></figure>'
    )


def _level(frame: _Frame, value: float) -> str:
    y = frame.y(value)
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
        'stroke="var(--line)"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
    )


def _step(frame: _Frame, step: float) -> str:
    x = frame.x(step)
    return f'<text x="{x:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">{_short(step)}</text>'


def _mark(frame: _Frame, step: float, label: str) -> str:
    x = frame.x(step)
    on_left = x > 0.6 * _WIDTH  # a label on the right would leave the drawing
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
        f'stroke="var(--dim)" stroke-dasharray="2 3"/>'
        f'<text x="{x - 4 if on_left else x + 4:.1f}" y="{0.55 * _HEIGHT:.0f}" '
        f'text-anchor="{"end" if on_left else "start"}">'
        f"{html.escape(label)} (step {step:,.0f})</text>"
    )


def _line(frame: _Frame, line: Series, colour: str) -> str:
    places = [(frame.x(step), frame.y(value)) for step, value in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    style = ' stroke-dasharray="6 4"' if line.dashed else ""
    width, opacity = (1, ' opacity="0.3"') if line.faint else (1.8, "")
    drawn = (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"'
        f"{style}{opacity}><title>{html.escape(line.name)}: {line.points[-1][1]:.5g} at the end"
        "</title></polyline>"
    )
    if len(places) == 1:  # a line of one point is invisible
        x, y = places[0]
        drawn += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
    return drawn


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round values that cover a range.

    >>> ticks(0.0, 950.0, 5)
    [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
    """
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
