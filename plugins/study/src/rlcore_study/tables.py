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
        rows.append((run.name, seed, run.outcome, score, whole(run.steps), duration(run.wall_seconds)))
    steps = sum(run.steps for run in scored.group.runs)
    seconds = [run.wall_seconds for run in scored.group.runs if run.wall_seconds is not None]
    total = duration(sum(seconds)) if seconds else NOTHING
    rows.append((scored.group.name, seeds(scored), "IQM", interval(scored.iqm), whole(steps), total))
    return rows


def rows_of_groups(comparison: Comparison) -> list[tuple[str, ...]]:
    """A row for each group, under headings."""
    rows: list[tuple[str, ...]] = [("configuration", "seeds", "IQM", "95% interval", "steps of a run")]
    for each in comparison.groups:
        steps = {run.steps for run in each.group.runs}
        many = whole(steps.pop()) if len(steps) == 1 else f"{whole(min(steps))} to {whole(max(steps))}"
        value = NOTHING if each.iqm is None else number(each.iqm.value)
        rows.append((each.group.name, str(len(each.scores)), value, ends(each.iqm), many))
    return rows


def rows_of_pairs(comparison: Comparison) -> list[tuple[str, ...]]:
    """A row for each pair of groups, under headings; empty for one group."""
    rows = [
        (pair.better, "better than", pair.than, f"{pair.probability.value:.2f}", _ends_of(pair))
        for pair in comparison.pairs
    ]
    return [("configuration", "", "configuration", "probability", "95% interval"), *rows] if rows else []


def _ends_of(pair: Pair) -> str:
    """The ends of the interval; beside one without width, what so many seeds can tell."""
    if pair.could_be is None:
        return ends(pair.probability)
    ours, theirs = pair.seeds
    return f"{ends(pair.probability)} ({ours} against {theirs} tell {number(pair.could_be)} to {number(1.0)})"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison as plain values."""

    def plain(found: Interval | None) -> dict[str, Any] | None:
        return None if found is None else attrs.asdict(found)

    return {
        "score": "evaluation" if comparison.evaluated else "training",
        "configurations": [
            {
                "name": each.group.name,
                "iqm": plain(each.iqm),
                "runs": [
                    {
                        "run": str(run.data.directory),
                        "seed": run.seed,
                        "outcome": run.outcome,
                        "score": comparison.score(run),
                        "counts": run not in [left for left, _ in each.left_out],
                        "steps": run.steps,
                        "seconds": run.wall_seconds,
                    }
                    for run in each.group.runs
                ],
            }
            for each in comparison.groups
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
    all_of = len(scored.group.runs)
    return f"{count} seed{'s' * (count != 1)}" if count == all_of else f"{count} of {all_of}"


def interval(found: Interval | None) -> str:
    """``487.30 (450.10 to 500.00)``."""
    if found is None:
        return NOTHING
    return number(found.value) if found.low is None else f"{number(found.value)} ({ends(found)})"


def ends(found: Interval | None) -> str:
    """``450.10 to 500.00``; ``-`` for one score."""
    if found is None or found.low is None or found.high is None:
        return NOTHING
    return f"{number(found.low)} to {number(found.high)}"


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
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
