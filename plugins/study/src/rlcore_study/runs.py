"""The runs of a comparison or a report: their files, and notes about what is unfinished, missing or damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

from rlcore import ConfigError, PluginError, RunData, RunStateError, echo, is_whole, read_run
from rlcore_study.curves import Series, read_series
from rlcore_study.documents import at_path, finite, items_at, list_at
from rlcore_study.names import runs_named

SHOWN_LINES = 5  # numbers of unreadable lines in a note

# Timers of timers.json with ML-Agents' names, in words, in the order in which they are shown.
TIMERS = {
    "TorchPolicy.evaluate": "acting",
    "env_step": "environment",
    "process_trajectory": "storing steps",
    "_update_policy": "updates",
    "Evaluator.evaluate": "evaluations",
    "RLTrainer._checkpoint": "checkpoints",
    "Exporter.export": "exports",
    "run_training.setup": "start",
}
OTHER = "other"


@attrs.frozen(slots=False, eq=False)
class ReportedRun:
    """One run of a comparison or a report.

    Attributes:
        name: The name in the report: the run id, or the path if two runs have one id.
        data: The files of the run.
    """

    name: str
    data: RunData

    @cached_property
    def series(self) -> Mapping[str, Mapping[str, Series]]:
        """The statistics by behavior and tag."""
        return read_series(self.data.metrics)

    @property
    def seed(self) -> int | None:
        """The seed; None if the configuration does not say it."""
        seed = at_path(self.data.configuration, "env_settings", "seed")
        return seed if isinstance(seed, int) else None

    @property
    def outcome(self) -> str:
        """``done``, ``interrupted``, ``environment ended`` or ``failed``, ``running``, or ``not finished``."""
        if self.data.running:
            return "running"
        return str(self.data.result["outcome"]) if self.data.result else "not finished"

    @cached_property
    def steps(self) -> int:
        """Agent steps of all behaviors at the end, or at the last summary or checkpoint of a run that has no result."""
        result = sum(each["steps"] for each in self._results.values() if is_whole(each.get("steps")))
        last: dict[str, int] = {}
        for summary in self.data.metrics:
            last[summary.behavior] = summary.step
        return result or max([sum(last.values()), *(each.step for each in self.data.checkpoints)])

    @property
    def episodes(self) -> int | None:
        """Finished episodes of all behaviors; None without a result."""
        found = [each["episodes"] for each in self._results.values() if is_whole(each.get("episodes"))]
        return sum(found) if found else None

    def final_return(self, behavior: str) -> float | None:
        """Mean return of the latest 100 training episodes at the end, or at the last checkpoint; None if unknown."""
        if behavior in self._results:
            return finite(self._results[behavior].get("mean_reward"))
        entries = self.listed(behavior)
        return finite(entries[-1].get("reward")) if entries else None

    def return_at(self, behavior: str, step: int) -> float | None:
        """Mean return of the latest 100 training episodes at the checkpoint of ``step``; None if it is not listed."""
        found = [each for each in self.listed(behavior) if each["run_steps"] == step]
        return finite(found[-1].get("reward")) if found else None

    def listed(self, behavior: str) -> list[Mapping[str, Any]]:
        """The checkpoints of a behavior as the training status lists them."""
        listed = list_at(self.data.status, behavior, "checkpoints")
        return [each for each in listed if is_whole(at_path(each, "run_steps")) and is_whole(at_path(each, "steps"))]

    @property
    def scores(self) -> Mapping[str, Any]:
        """The last and the best score of evaluations; empty without one."""
        found = at_path(self.data.result, "evaluation") or at_path(self.data.status, "metadata", "evaluation")
        return found if finite(at_path(found, "best_score")) is not None else {}

    @property
    def best_score(self) -> float | None:
        """The best score of the evaluations of the run; None without one."""
        return finite(self.scores.get("best_score"))

    @property
    def last_score(self) -> float | None:
        """The score of the last evaluation of the run; None without one."""
        return finite(self.scores.get("score"))

    @property
    def mean_return(self) -> float | None:
        """Mean return of the latest 100 training episodes, the mean over behaviors; None before the first episode."""
        found = [value for name in self.behaviors if (value := self.final_return(name)) is not None]
        return sum(found) / len(found) if found else None

    @cached_property
    def behaviors(self) -> set[str]:
        """The behaviors with statistics, a result or checkpoints."""
        return {*self.series, *self._results, *(name for name in self.data.status if self.listed(name))}

    @property
    def versions(self) -> str:
        """The versions of rlcore and libraries at the newest checkpoint, such as ``rlcore 0.1.0, torch 2.13.0``."""
        names = ("rlcore", "torch", "numpy")
        found = {name: at_path(self.data.status, "metadata", f"{name}_version") for name in names}
        return ", ".join(f"{name} {version}" for name, version in found.items() if version is not None)

    @property
    def wall_seconds(self) -> float | None:
        """Duration of all processes of the run; None without a result."""
        return finite(at_path(self.data.result, "wall_seconds"))

    @property
    def steps_per_second(self) -> float | None:
        """Speed of the last process of the run; None without a result."""
        return finite(at_path(self.data.result, "steps_per_second"))

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Seconds of the last process by part, the rest as ``other``; empty without ``timers.json``."""
        total = finite(at_path(self.data.timers, "total")) or 0.0
        if total <= 0:
            return {}
        known = dict(_timers(self.data.timers))
        found = {text: known[name] for name, text in TIMERS.items() if known.get(name, 0.0) > 0}
        found[OTHER] = max(0.0, total - sum(found.values()))
        return found

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """A sentence for everything that is unfinished, missing or damaged."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        data = self.data
        if data.running:
            yield "is running; the report shows what it has written so far"
        elif data.result is None:
            yield "has no result: its process was killed, or its machine stopped; rlcore run --resume continues it"
        elif data.result["outcome"] == "failed":
            yield "failed; its console, or the log of its job, has the error"
        elif (reason := at_path(data.result, "stop", "reason")) is not None:
            yield f"was stopped: {reason}"
        if not data.metrics:
            yield "has no summary yet, so it has no curves"
        yield from data.damaged
        if data.unreadable_metrics:
            numbers = ", ".join(map(str, data.unreadable_metrics[:SHOWN_LINES]))
            more = ", ..." if len(data.unreadable_metrics) > SHOWN_LINES else ""
            yield f"metrics.jsonl: line {numbers}{more} cannot be read and is left out"
        yield from (each.problem for each in data.checkpoints if each.problem)
        for export in list_at(data.result, "exports"):
            if problem := at_path(export, "problem"):
                yield f"export of {at_path(export, 'behavior')} failed: {problem}"

    @property
    def _results(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: each for name, each in items_at(self.data.result, "behaviors") if isinstance(each, Mapping)}


def read_runs(paths: Sequence[Path]) -> tuple[list[ReportedRun], list[str]]:
    """The runs that ``paths`` name, each once, and a line for each unreadable run.

    A path is a run directory, the id of a run in ``results``, or the same for a study, which stands for its runs.
    Raises RunStateError for a path that names neither.
    """
    found: dict[Path, RunData] = {}
    problems = []
    for path in (each for named in paths for each in runs_named(named)):
        try:
            data = read_run(path)
        except (ConfigError, PluginError) as error:
            problems.append(f"{path}: left out: {error}")
            continue
        found.setdefault(data.directory.resolve(), data)
    names = [place.name for place in found]
    runs = [
        ReportedRun(place.name if names.count(place.name) == 1 else str(data.directory), data)
        for place, data in found.items()
    ]
    return runs, problems


def runs_to(purpose: str, paths: Sequence[Path]) -> tuple[list[ReportedRun], list[str]]:
    """The answer of :func:`read_runs` for a command, which prints the problems as warnings.

    Raises RunStateError, with the ``purpose`` such as ``compare``, if no run can be read.
    """
    found, problems = read_runs(paths)
    for problem in problems:
        echo(f"warning: {problem}", err=True)
    if not found:
        raise RunStateError(f"no run can be read, so there is nothing to {purpose}")
    return found, problems


def _timers(node: Any, depth: int = 0) -> Iterator[tuple[str, float]]:
    """The known timers in a tree, each with its seconds. What is inside a known timer belongs to it."""
    for name, child in items_at(node, "children") if depth <= 10 else ():
        if name in TIMERS:
            yield name, finite(at_path(child, "total")) or 0.0
        else:
            yield from _timers(child, depth + 1)
