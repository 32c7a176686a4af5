"""The charts of a report: which statistics there are, in which order, and the numbers that the page draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Tag
from rlcore_study.curves import Band, Series, band, efficiency, shortened, smoothed
from rlcore_study.groups import Group
from rlcore_study.summary import Spread

SMOOTHINGS = {"none": 0.0, "light": 0.6, "strong": 0.9}
"""Weights of the exponential moving averages that the page offers, by name."""

DIGITS = 6  # significant digits of numbers in the page

TITLES = {
    Tag.CUMULATIVE_REWARD: "Return of training episodes",
    Tag.GROUP_REWARD: "Group return of training episodes",
    Tag.EVALUATION_REWARD: "Return of evaluation episodes",
    Tag.EPISODE_LENGTH: "Length of training episodes",
    Tag.EVALUATION_LENGTH: "Length of evaluation episodes",
    Tag.STEPS_PER_SECOND: "Agent steps per second",
    "Self-play/ELO": "Elo rating of the learning policy",
}
FIRST = (Tag.CUMULATIVE_REWARD, Tag.EVALUATION_REWARD, Tag.GROUP_REWARD)
PREFIXES = (
    ("Returns", (*FIRST, Tag.REWARD_AGAINST, Tag.WIN_RATE_AGAINST, Tag.DRAW_RATE_AGAINST)),
    ("Ratings and self-play", ("Self-play/",)),
    ("Lessons and environment parameters", (Tag.LESSON_NUMBER, Tag.PARAMETER)),
    ("Losses", ("Losses/",)),
    ("Policy", ("Policy/",)),
    ("Episodes and speed", ("",)),
)
MAX_CHARTS = 600  # on one page; a run has about 30 statistics for each behavior
OPEN = ("Returns", "Ratings and self-play", "Lessons and environment parameters", "Losses")


@attrs.frozen(eq=False)
class Chart:
    """One statistic of one behavior.

    Attributes:
        id: The id of the element in the page.
        title: The title.
        tag: The tag of the statistic.
        caption: A sentence about the points that the chart shows; may be empty.
        data: The numbers that the page draws, for JSON.
        finals: For each group the name, and the last step at which all runs have a value, with the spread of these.
    """

    id: str
    title: str
    tag: str
    caption: str
    data: dict[str, Any]
    finals: tuple[tuple[str, int, Spread], ...]


@attrs.frozen(eq=False)
class Section:
    """Charts of one kind and behavior.

    Attributes:
        title: The title.
        behavior: The behavior; empty if all runs have only one.
        open: Whether the charts are shown at once.
        charts: At least one chart.
    """

    title: str
    behavior: str
    open: bool
    charts: tuple[Chart, ...]


def sections(groups: Sequence[Group], behaviors: Sequence[str]) -> tuple[list[Section], int]:
    """The charts of all statistics of ``behaviors``, by behavior and kind, and how many are left out of the page."""
    of_page: list[Section] = []
    number = 0
    for behavior in behaviors:
        subtitle = behavior if len(behaviors) > 1 else ""
        tags: set[str] = set()
        for group in groups:
            for run in group.runs:
                tags |= run.series.get(behavior, {}).keys()
        remaining = sorted(tags - {Tag.IS_TRAINING}, key=_order)
        for title, prefixes in PREFIXES:
            chosen = [tag for tag in remaining if tag.startswith(prefixes)]
            remaining = [tag for tag in remaining if tag not in chosen]
            charts = []
            for tag in chosen:
                number += 1
                if number > MAX_CHARTS:
                    continue
                chart = _chart(f"chart-{number}", groups, behavior, tag)
                if chart is not None:
                    charts.append(chart)
            if charts:
                of_page.append(Section(title, subtitle, title in OPEN, tuple(charts)))
    return of_page, max(0, number - MAX_CHARTS)


def efficiency_charts(groups: Sequence[Group], behaviors: Sequence[str], evaluated: bool) -> list[Chart]:
    """A chart for each behavior: the interquartile mean over seeds of evaluations, or of training episodes."""
    tag = Tag.EVALUATION_REWARD if evaluated else Tag.CUMULATIVE_REWARD
    charts = []
    for number, behavior in enumerate(behaviors):
        drawn = []
        for index, group in enumerate(groups):
            by_run = _finite(group, behavior, tag)
            if by_run:
                runs = [shortened(series) for series in by_run.values()]
                interval = efficiency(runs)
                drawn.append(_drawn(index, list(by_run), [interval], [runs]))
        if drawn:
            element = f"efficiency-{number}"
            title = _title(tag)
            if len(behaviors) > 1:
                title = f"{title} of {behavior}"
            data = {"id": element, "held": False, "fixed": True, "groups": drawn}
            charts.append(Chart(element, title, tag, "", data, ()))
    return charts


def _finite(group: Group, behavior: str, tag: str) -> dict[str, Series]:
    """The series of each run of a group that has a finite value."""
    by_run = {}
    for run in group.runs:
        series = run.series.get(behavior, {}).get(tag)
        if series is not None and np.isfinite(series.values).any():
            by_run[run.name] = series
    return by_run


def _drawn(index: int, names: list[str], bands: Sequence[Band], levels: Sequence[Sequence[Series]]) -> dict[str, Any]:
    """The numbers of one group: the band and the series of its runs for each smoothing, the first without any."""
    raw = bands[0]
    return {
        "group": index,
        "names": names,
        "steps": _numbers(raw.steps),
        "count": _numbers(raw.count),
        "runSteps": [_numbers(series.steps) for series in levels[0]],
        "levels": [_level(smooth, runs) for smooth, runs in zip(bands, levels, strict=True)],
    }


def _order(tag: str) -> tuple[int, str]:
    return (FIRST.index(tag) if tag in FIRST else len(FIRST), tag)


def _chart(element: str, groups: Sequence[Group], behavior: str, tag: str) -> Chart | None:
    """The chart of one statistic; None if no run has a finite value of it."""
    held = tag.startswith(Tag.LESSON_NUMBER)
    drawn: list[dict[str, Any]] = []
    finals: list[tuple[str, int, Spread]] = []
    averaged = 1
    for index, group in enumerate(groups):
        by_run = _finite(group, behavior, tag)
        if not by_run:
            continue
        levels = []
        for weight in SMOOTHINGS.values():
            curves = [smoothed(series, 0.0 if held else weight) for series in by_run.values()]
            # After the smoothing, whose weights are those of single summaries.
            levels.append([shortened(curve) for curve in curves])
        bands = [band(runs, held) for runs in levels]
        raw = bands[0]
        averaged = max(averaged, *(series.averaged for series in levels[0]))
        drawn.append(_drawn(index, list(by_run), bands, levels))
        complete = np.flatnonzero(raw.count == len(by_run))
        if len(complete):
            last = complete[-1]
            numbers = [column[last].item() for column in (raw.mean, raw.std, raw.low, raw.high)]
            spread = Spread(len(by_run), *numbers)
            finals.append((group.name, int(raw.steps[last]), spread))
    if not drawn:
        return None
    caption = ""
    if averaged > 1:
        caption = f"Each point is the mean of up to {averaged} summaries."
    data = {"id": element, "held": held, "groups": drawn}
    return Chart(element, _title(tag), tag, caption, data, tuple(finals))


def _title(tag: str) -> str:
    if tag in TITLES:
        return TITLES[tag]
    for prefix, words in (
        (Tag.LESSON_NUMBER, "Lesson of "),
        (Tag.PARAMETER, "Value of "),
        (Tag.REWARD_AGAINST, "Return against "),
        (Tag.WIN_RATE_AGAINST, "Share of games won against "),
        (Tag.DRAW_RATE_AGAINST, "Share of games drawn against "),
    ):
        if tag.startswith(prefix):
            return words + tag.removeprefix(prefix)
    return tag.partition("/")[2] or tag


def _level(smooth: Band, runs: Sequence[Series]) -> dict[str, Any]:
    return {
        "mean": _numbers(smooth.mean),
        "low": _numbers(smooth.low),
        "high": _numbers(smooth.high),
        "std": _numbers(smooth.std),
        "runs": [_numbers(series.values) for series in runs],
    }


def _numbers(array: NDArray[Any]) -> list[float | int | None]:
    """Numbers for JSON: null for what is not finite, six significant digits."""
    if array.dtype.kind in "iu":
        return [int(value) for value in array]
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in array]
