"""A curve as lines of text, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Point = tuple[float, float]


def text_curve(
    points: Sequence[Point],
    reference: float | None = None,
    *,
    width: int = 60,
    height: int = 8,
    ascii_only: bool = False,
) -> list[str]:
    """Draw points (ascending x) and a level line as text, the largest value on top.

    Args:
        points: ``(x, y)``; between them the curve is straight.
        reference: a level to compare with, drawn as a broken line.
        width: columns of the drawing, beside the labels of the y axis.
        height: rows.
        ascii_only: use no other characters.

    Example:
        >>> lines = text_curve([(0, 2.0), (10, 1.0)], width=10, height=2, ascii_only=True)
        >>> print("\\n".join(lines))
        2.00 |*****
        1.00 |     *****
             +----------
              0       10
    """
    if not points:
        return []
    mark, dash, tick, side, corner, floor = "*-||+-" if ascii_only else "•┄┤│└─"
    values = [y for _, y in points] + ([] if reference is None else [reference])
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def row_of(value: float) -> int:
        return min(height - 1, int((high - value) / span * height))

    rows = [[" "] * width for _ in range(height)]
    if reference is not None:
        rows[row_of(reference)] = [dash] * width
    first, last = points[0][0], points[-1][0]
    for column in range(width):
        x = first + (last - first) * column / max(1, width - 1)
        rows[row_of(_value_at(points, x))][column] = mark
    lines = []
    for number, row in enumerate(rows):
        is_labelled = number in (0, height - 1)
        label = f"{high if number == 0 else low:.2f}" if is_labelled else ""
        lines.append(f"{label:>4} {tick if is_labelled else side}{''.join(row)}")
    left, right = f"{first:,.0f}", f"{last:,.0f}"
    lines.append(f"{'':>4} {corner}{floor * width}")
    lines.append(f"{'':>4}  {left}{right:>{max(1, width - len(left))}}")
    return [line.rstrip() for line in lines]


def _value_at(points: Sequence[Point], x: float) -> float:
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / ((x1 - x0) or 1.0)
    return points[-1][1]
