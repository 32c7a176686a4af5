"""The tables of a report: results and time of each group of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import fmean, stdev

import attrs

from rlcore_study.groups import Group


@attrs.frozen
class Spread:
    """Mean, sample standard deviation and range of one number of several runs.

    Attributes:
        runs: Number of runs that have the number.
        mean: Mean; None if no run has it.
        std: Sample standard deviation; None for fewer than two runs.
        low: Smallest value; None if no run has it.
        high: Largest value; None if no run has it.
    """

    runs: int
    mean: float | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread:
        """The spread of the values that are not None."""
        known = [value for value in values if value is not None]
        if not known:
            return cls(0)
        deviation = stdev(known) if len(known) > 1 else None
        return cls(len(known), fmean(known), deviation, min(known), max(known))


@attrs.frozen
class GroupResult:
    """The result of one behavior in one group.

    Attributes:
        group: The name of the group.
        index: Index of the group.
        behavior: The name of the behavior.
        outcomes: How the runs ended in words, such as ``4 done, 1 failed``.
        steps: Agent steps of the runs.
        returns: Mean return of the latest 100 training episodes of each run.
        scores: Best evaluation of each run.
        seconds: Duration of each run.
    """

    group: str
    index: int
    behavior: str
    outcomes: str
    steps: Spread
    returns: Spread
    scores: Spread
    seconds: Spread


def results(groups: Sequence[Group], behaviors: Sequence[str]) -> list[GroupResult]:
    """A row for each group and behavior that one of its runs has."""
    rows = []
    for index, group in enumerate(groups):
        outcomes = Counter(run.outcome for run in group.runs)
        ends = group.runs[0].outcome
        if len(group.runs) > 1:
            ends = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        present = {name for run in group.runs for name in run.behaviors}
        for behavior in [name for name in behaviors if name in present] or [""]:
            rows.append(
                GroupResult(
                    group.name,
                    index,
                    behavior,
                    ends,
                    Spread.of(float(run.steps) for run in group.runs),
                    Spread.of(run.final_return(behavior) for run in group.runs),
                    Spread.of(run.best_score for run in group.runs),
                    Spread.of(run.wall_seconds for run in group.runs),
                )
            )
    return rows


def times(groups: Sequence[Group]) -> dict[str, dict[str, float]]:
    """Mean seconds of each part of the time, for each group in which a run has timers."""
    by_group: dict[str, dict[str, float]] = {}
    for group in groups:
        timed = [run.seconds for run in group.runs if run.seconds]
        means = {}
        for part in dict.fromkeys(chain(*timed)):
            means[part] = fmean([seconds.get(part, 0.0) for seconds in timed])
        if means:
            by_group[group.name] = means
    return by_group
