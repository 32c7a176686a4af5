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
    found: list[Section] = []
    number = 0
    for behavior in behaviors:
        tags = {tag for group in groups for run in group.runs for tag in run.series.get(behavior, ())}
        left = sorted(tags - {Tag.IS_TRAINING}, key=_order)
        for title, prefixes in PREFIXES:
            chosen = [tag for tag in left if tag.startswith(prefixes)]
            left = [tag for tag in left if tag not in chosen]
            charts = []
            for tag in chosen:
                number += 1
                chart = _chart(f"chart-{number}", groups, behavior, tag) if number <= MAX_CHARTS else None
                if chart is not None:
                    charts.append(chart)
            if charts:
                found.append(Section(title, behavior if len(behaviors) > 1 else "", title in OPEN, tuple(charts)))
    return found, max(0, number - MAX_CHARTS)


def efficiency_charts(groups: Sequence[Group], behaviors: Sequence[str], evaluated: bool) -> list[Chart]:
    """A chart for each behavior: the interquartile mean over seeds of evaluations, or of training episodes."""
    tag = Tag.EVALUATION_REWARD if evaluated else Tag.CUMULATIVE_REWARD
    charts = []
    for number, behavior in enumerate(behaviors):
        drawn = []
        for index, group in enumerate(groups):
            series = _finite(group, behavior, tag)
            if series:
                runs = [shortened(each) for each in series.values()]
                drawn.append(_drawn(index, list(series), runs, [(efficiency(runs), runs)]))
        if drawn:
            element = f"efficiency-{number}"
            title = f"{_title(tag)} of {behavior}"
            data = {"id": element, "held": False, "fixed": True, "groups": drawn}
            charts.append(Chart(element, _title(tag) if len(behaviors) == 1 else title, tag, "", data, ()))
    return charts


def _finite(group: Group, behavior: str, tag: str) -> dict[str, Series]:
    """The series of each run of a group that has a finite value."""
    found = {run.name: run.series[behavior][tag] for run in group.runs if tag in run.series.get(behavior, {})}
    return {name: series for name, series in found.items() if np.isfinite(series.values).any()}


def _drawn(
    index: int, names: list[str], runs: Sequence[Series], levels: Sequence[tuple[Band, Sequence[Series]]]
) -> dict[str, Any]:
    """The numbers of one group, whose unsmoothed series are ``runs``."""
    raw = levels[0][0]
    return {
        "group": index,
        "names": names,
        "steps": _numbers(raw.steps),
        "count": _numbers(raw.count),
        "runSteps": [_numbers(series.steps) for series in runs],
        "levels": [_level(each, series) for each, series in levels],
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
        found = _finite(group, behavior, tag)
        if not found:
            continue
        levels = []
        for weight in SMOOTHINGS.values():
            curves = [smoothed(series, 0.0 if held else weight) for series in found.values()]
            levels.append([shortened(curve) for curve in curves])
        bands = [band(runs, held) for runs in levels]
        raw = bands[0]
        averaged = max(averaged, *(series.averaged for series in levels[0]))
        drawn.append(_drawn(index, list(found), levels[0], list(zip(bands, levels, strict=True))))
        complete = np.flatnonzero(raw.count == len(found))
        if len(complete):
            last = complete[-1]
            spread = [column[last].item() for column in (raw.mean, raw.std, raw.low, raw.high)]
            finals.append((group.name, int(raw.steps[last]), Spread(len(found), *spread)))
    if not drawn:
        return None
    caption = f"Each point is the mean of up to {averaged} summaries." if averaged > 1 else ""
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


def _level(found: Band, runs: Sequence[Series]) -> dict[str, Any]:
    level: dict[str, Any] = {name: _numbers(getattr(found, name)) for name in ("mean", "low", "high", "std")}
    level["runs"] = [_numbers(series.values) for series in runs]
    return level


def _numbers(array: NDArray[Any]) -> list[float | int | None]:
    """Numbers for JSON: null for what is not finite, six significant digits."""
    if array.dtype.kind in "iu":
        return [int(value) for value in array]
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in array]
