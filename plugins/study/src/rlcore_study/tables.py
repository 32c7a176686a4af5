"""The tables of ``rlcore compare`` and at the end of ``rlcore run --seeds``."""

from __future__ import annotations

from typing import Any

import attrs

from rlcore_study.scores import Comparison, GroupScore, Pair
from rlcore_study.statistics import Interval

NOTHING = "-"


def rows_of_runs(comparison: Comparison, scored: GroupScore) -> list[tuple[str, ...]]:
    """A row for each run of a group, and one for the whole, under headings."""
    rows: list[tuple[str, ...]] = [("run", "seed", "outcome", "score", "steps", "time")]
    for run in scored.group.runs:
        seed = NOTHING if run.seed is None else str(run.seed)
        score = number(comparison.score(run))
        time = duration(run.wall_seconds)
        rows.append((run.name, seed, run.outcome, score, whole(run.steps), time))
    steps = whole(sum(run.steps for run in scored.group.runs))
    seconds = [run.wall_seconds for run in scored.group.runs if run.wall_seconds is not None]
    total = duration(sum(seconds)) if seconds else NOTHING
    rows.append((scored.group.name, seeds(scored), "IQM", interval(scored.iqm), steps, total))
    return rows


def rows_of_groups(comparison: Comparison) -> list[tuple[str, ...]]:
    """A row for each group, under headings."""
    rows: list[tuple[str, ...]] = [("configuration", "seeds", "IQM", "95% interval", "steps of a run")]
    for scored in comparison.groups:
        steps = [run.steps for run in scored.group.runs]
        least = whole(min(steps))
        most = whole(max(steps))
        of_a_run = least if least == most else f"{least} to {most}"
        mean = NOTHING if scored.iqm is None else number(scored.iqm.value)
        count = str(len(scored.scores))
        rows.append((scored.group.name, count, mean, ends(scored.iqm), of_a_run))
    return rows


def rows_of_pairs(comparison: Comparison) -> list[tuple[str, ...]]:
    """A row for each pair of groups, under headings; empty for one group."""
    if not comparison.pairs:
        return []
    rows: list[tuple[str, ...]] = [("configuration", "", "configuration", "probability", "95% interval")]
    for pair in comparison.pairs:
        probability = f"{pair.probability.value:.2f}"
        rows.append((pair.better, "better than", pair.than, probability, _ends_of(pair)))
    return rows


def _ends_of(pair: Pair) -> str:
    """The ends of the interval; beside one without width, what so many seeds can tell."""
    if pair.could_be is None:
        return ends(pair.probability)
    ours, theirs = pair.seeds
    return f"{ends(pair.probability)} ({ours} against {theirs} tell {number(pair.could_be)} to {number(1.0)})"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison as plain values."""

    def plain(interval: Interval | None) -> dict[str, Any] | None:
        return None if interval is None else attrs.asdict(interval)

    return {
        "score": "evaluation" if comparison.evaluated else "training",
        "configurations": [
            {
                "name": scored.group.name,
                "iqm": plain(scored.iqm),
                "runs": [
                    {
                        "run": str(run.data.directory),
                        "seed": run.seed,
                        "outcome": run.outcome,
                        "score": comparison.score(run),
                        "counts": run not in [left_out for left_out, _ in scored.left_out],
                        "steps": run.steps,
                        "seconds": run.wall_seconds,
                    }
                    for run in scored.group.runs
                ],
            }
            for scored in comparison.groups
        ],
        "improvement": [
            {
                "better": pair.better,
                "than": pair.than,
                "probability": plain(pair.probability),
                "could_be": pair.could_be,
                "smallest_p": pair.smallest_p,
            }
            for pair in comparison.pairs
        ],
        "warnings": comparison.warnings,
    }


def seeds(scored: GroupScore) -> str:
    """``5 seeds``, or ``4 of 5`` if a run does not count."""
    count = len(scored.scores)
    runs = len(scored.group.runs)
    if count < runs:
        return f"{count} of {runs}"
    return f"{count} seed{'s' * (count != 1)}"


def interval(statistic: Interval | None) -> str:
    """``487.30 (450.10 to 500.00)``."""
    if statistic is None:
        return NOTHING
    value = number(statistic.value)
    return value if statistic.low is None else f"{value} ({ends(statistic)})"


def ends(statistic: Interval | None) -> str:
    """``450.10 to 500.00``; ``-`` for one score."""
    if statistic is None or statistic.low is None or statistic.high is None:
        return NOTHING
    return f"{number(statistic.low)} to {number(statistic.high)}"


def number(value: float | None) -> str:
    """A measured value with four significant digits; ``-`` for None."""
    if value is None:
        return NOTHING
    if value == 0 or 0.01 <= abs(value) < 100_000:
        return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.3g}"


def whole(value: int | None) -> str:
    """A count with separators; ``-`` for None."""
    return NOTHING if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """``9.3 s``, ``4 min 10 s`` or ``2 h 5 min``; ``-`` for None."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
