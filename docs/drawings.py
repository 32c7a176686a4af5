"""Drawings of the site as SVG: curves with bands, and ratios with intervals.

They stand in the pages themselves and take their colors from the theme, so one drawing fits the light and the dark
mode. ``style.css`` has the classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import attrs

# of a curve
WIDTH = 400
HEIGHT = 240
LEFT = 58
RIGHT = 14
TOP = 12
BOTTOM = 42
# of a drawing of intervals: its width, the width of names, the height of a row
WIDE = 600
NAMES = 210
ROW = 26


@attrs.frozen
class Curve:
    """The mean over runs at P steps, and the least and the greatest run.

    Attributes:
        steps: [P] agent steps, ascending.
        mean: [P] mean over the runs; None where there is none.
        low: [P] least run.
        high: [P] greatest run.
    """

    steps: Sequence[int]
    mean: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]


@attrs.frozen
class Interval:
    """A ratio with its interval.

    Attributes:
        name: The text beside it.
        value: The ratio.
        low: The lower end.
        high: The upper end.
    """

    name: str
    value: float
    low: float
    high: float


def curve(found: Curve, title: str, unit: str) -> str:
    """Return the drawing of one curve over agent steps; ``title`` describes it to readers who do not see it."""
    points = [
        (step, mean, low, high)
        for step, mean, low, high in zip(found.steps, found.mean, found.low, found.high, strict=True)
        if mean is not None and low is not None and high is not None
    ]
    if not points:
        return ""
    bottom, top, ticks = rounded(min(point[2] for point in points), max(point[3] for point in points))
    last = points[-1][0] or 1

    def x(step: float) -> str:
        return f"{LEFT + (WIDTH - LEFT - RIGHT) * step / last:.1f}"

    def y(value: float) -> str:
        return f"{TOP + (HEIGHT - TOP - BOTTOM) * (top - value) / (top - bottom):.1f}"

    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick)}" y2="{y(tick)}"/>'
        f'<text x="{LEFT - 6}" y="{y(tick)}" dy="4" text-anchor="end">{number(tick)}</text>'
        for tick in ticks
    ]
    lines += [
        f'<text x="{x(last * part)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="{anchor}">{number(last * part)}</text>'
        for part, anchor in ((0.0, "middle"), (0.5, "middle"), (1.0, "end"))
    ]
    lines.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 5}" text-anchor="middle">agent steps</text>')
    edge = [f"{x(step)},{y(high)}" for step, _, _, high in points]
    edge += [f"{x(step)},{y(low)}" for step, _, low, _ in reversed(points)]
    lines.append(f'<polygon class="band" points="{" ".join(edge)}"/>')
    lines.append(f'<polyline class="mean" points="{" ".join(f"{x(point[0])},{y(point[1])}" for point in points)}"/>')
    lines.append(f'<text class="unit" x="{LEFT + 6}" y="{TOP + 12}">{escape(unit)}</text>')
    return svg(WIDTH, HEIGHT, title, lines)


def intervals(found: Sequence[Interval], title: str, target: float) -> str:
    """Return the drawing of ratios on a logarithmic axis with lines at 1 and at the target."""
    height = TOP + ROW * len(found) + BOTTOM
    low, high = (math.log(value) for value in (0.4, 5.0))

    def x(value: float) -> float:
        place = (math.log(min(max(value, 0.4), 5.0)) - low) / (high - low)
        return round(NAMES + (WIDE - NAMES - RIGHT) * place, 1)

    base = TOP + ROW * len(found)
    lines = [
        f'<line class="{"one" if tick == 1 else "grid"}" x1="{x(tick)}" x2="{x(tick)}" y1="{TOP}" y2="{base}"/>'
        f'<text x="{x(tick)}" y="{base + 18}" text-anchor="middle">{tick:g}</text>'
        for tick in (0.5, 1, 2, 4)
    ]
    lines.append(f'<line class="target" x1="{x(target)}" x2="{x(target)}" y1="{TOP}" y2="{base}"/>')
    for row, each in enumerate(found):
        y = TOP + ROW * (row + 0.5)
        kind = "below" if each.value < target else "mean"
        lines.append(f'<text x="{NAMES - 8}" y="{y + 4}" text-anchor="end">{escape(each.name)}</text>')
        lines.append(f'<line class="{kind}" x1="{x(each.low)}" x2="{x(each.high)}" y1="{y}" y2="{y}"/>')
        lines.append(f'<circle class="{kind}" cx="{x(each.value)}" cy="{y}" r="4"/>')
    lines.append(
        f'<text x="{(NAMES + WIDE - RIGHT) / 2}" y="{height - 5}" text-anchor="middle">'
        f"rlcore / Stable-Baselines3; dashed: {target:g}</text>"
    )
    return svg(WIDE, height, title, lines)


def svg(width: int, height: float, title: str, lines: Sequence[str]) -> str:
    """Return a drawing without an empty line, which would end it in Markdown."""
    head = f'<svg class="drawing" viewBox="0 0 {width} {height:g}" role="img" xmlns="http://www.w3.org/2000/svg">'
    return "".join([head, f"<title>{escape(title)}</title>", *lines, "</svg>"])


def rounded(low: float, high: float) -> tuple[float, float, list[float]]:
    """Return a range of round numbers around ``low`` and ``high``, and its ticks, at most six."""
    span = high - low or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if span / (step * factor) <= 4.5)
    first = math.floor(low / step)
    last = math.ceil(high / step)
    return first * step, last * step, [tick * step for tick in range(first, last + 1)]


def number(value: float) -> str:
    """Return a short text of a number on an axis: ``100k``, ``-1,200``, ``0.5``."""
    if abs(value) >= 10_000:
        return f"{value / 1000:,g}k" if abs(value) < 1_000_000 else f"{value / 1_000_000:,g}M"
    return f"{round(value, 6):,g}"
