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
    """One line of a chart.

    >>> Series("train", ((1, 9.1), (2, 8.7))).points[-1]
    (2, 8.7)
    """

    name: str
    points: Points
    dashed: bool = False
    faint: bool = False


def chart(title: str, series: Sequence[Series], marks: Sequence[tuple[float, str]] = ()) -> str:
    """An SVG line chart over steps with axes and a legend; hand-made, so that a report needs no
    plotting library and follows the reader's light or dark theme."""
    drawn = [line for line in series if line.points]
    if not drawn:
        return ""
    xs = [x for line in drawn for x, _ in line.points]
    ys = [y for line in drawn for _, y in line.points]
    x_ticks, y_ticks = ticks(0.0, max(xs), 6), ticks(min(ys), max(ys), 5)
    x_low, x_high = 0.0, max(max(xs), 1.0)
    y_low, y_high = min(y_ticks[0], min(ys)), max(y_ticks[-1], max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / ((x_high - x_low) or 1.0)
        up = (y - y_low) / ((y_high - y_low) or 1.0)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    shapes = []
    for tick in y_ticks:
        y = place(x_low, tick)[1]
        shapes.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="var(--line)"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for tick in (t for t in x_ticks if t <= x_high):
        x = place(tick, y_low)[0]
        shapes.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">{_short(tick)}</text>'
        )
    for step, label in marks:
        x = place(step, y_low)[0]
        on_left = x > 0.6 * _WIDTH  # a label on the right would leave the drawing
        shapes.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
            f'stroke="var(--dim)" stroke-dasharray="2 3"/>'
            f'<text x="{x - 4 if on_left else x + 4:.1f}" y="{0.55 * _HEIGHT:.0f}" '
            f'text-anchor="{"end" if on_left else "start"}">'
            f"{html.escape(label)} (step {step:,.0f})</text>"
        )
    legend = []
    for line, colour in zip(drawn, _colours(drawn), strict=True):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line.points))
        style = ' stroke-dasharray="6 4"' if line.dashed else ""
        width = 1 if line.faint else 1.8
        opacity = ' opacity="0.3"' if line.faint else ""
        value = line.points[-1][1]
        shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"'
            f"{style}{opacity}><title>{html.escape(line.name)}: {value:.5g} at the end</title>"
            "</polyline>"
        )
        if len(line.points) == 1:  # a line of one point is invisible
            x, y = place(*line.points[0])
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')
        if not line.faint:
            legend.append(
                f'<span><i style="background:{colour}"></i>{html.escape(line.name)} '
                f"<b>{value:.4g}</b></span>"
            )
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(shapes)}</svg>'
        f'<div class="legend">{"".join(legend)}</div></figure>'
    )


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
