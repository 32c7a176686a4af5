"""The runs of a comparison or a report: their files, and notes about what is unfinished, missing or damaged."""

from __future__ import annotations

from collections import Counter
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
class ReportedTraining:
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
        at_end = sum(self._counts("steps"))
        if at_end:
            return at_end
        # A killed run may have saved a checkpoint after its last summary, or the other way round.
        last: dict[str, int] = {}
        for summary in self.data.metrics:
            last[summary.behavior] = summary.step
        checkpoints = [checkpoint.step for checkpoint in self.data.checkpoints]
        return max([sum(last.values()), *checkpoints])

    @property
    def episodes(self) -> int | None:
        """Finished episodes of all behaviors; None without a result."""
        counts = self._counts("episodes")
        return sum(counts) if counts else None

    def _counts(self, key: str) -> list[int]:
        """The number ``key`` in the result of each behavior, as far as there are any."""
        counts: list[Any] = [result.get(key) for result in self._results.values()]
        return [count for count in counts if is_whole(count)]

    def final_return(self, behavior: str) -> float | None:
        """Mean return of the latest 100 training episodes at the end, or at the last checkpoint; None if unknown."""
        if behavior in self._results:
            return finite(self._results[behavior].get("mean_reward"))
        entries = self.listed(behavior)
        return finite(entries[-1].get("reward")) if entries else None

    def return_at(self, behavior: str, step: int) -> float | None:
        """Mean return of the latest 100 training episodes at the checkpoint of ``step``; None if it is not listed."""
        entries = [entry for entry in self.listed(behavior) if entry["run_steps"] == step]
        return finite(entries[-1].get("reward")) if entries else None

    def listed(self, behavior: str) -> list[Mapping[str, Any]]:
        """The checkpoints of a behavior as the training status lists them."""
        entries = []
        for entry in list_at(self.data.status, behavior, "checkpoints"):
            if is_whole(at_path(entry, "run_steps")) and is_whole(at_path(entry, "steps")):
                entries.append(entry)
        return entries

    @property
    def scores(self) -> Mapping[str, Any]:
        """The last and the best score of evaluations; empty without one."""
        scores = at_path(self.data.result, "evaluation") or at_path(self.data.status, "metadata", "evaluation")
        if finite(at_path(scores, "best_score")) is None:
            return {}
        return dict(scores)

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
        returns = [self.final_return(name) for name in self.behaviors]
        known = [value for value in returns if value is not None]
        return sum(known) / len(known) if known else None

    @cached_property
    def behaviors(self) -> set[str]:
        """The behaviors with statistics, a result or checkpoints."""
        with_checkpoints = {name for name in self.data.status if self.listed(name)}
        return {*self.series, *self._results, *with_checkpoints}

    @property
    def versions(self) -> str:
        """The versions of rlcore and libraries at the newest checkpoint, such as ``rlcore 0.1.0, torch 2.13.0``."""
        texts = []
        for name in ("rlcore", "torch", "numpy"):
            version = at_path(self.data.status, "metadata", f"{name}_version")
            if version is not None:
                texts.append(f"{name} {version}")
        return ", ".join(texts)

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
        timers = dict(_timers(self.data.timers))
        seconds = {part: timers[name] for name, part in TIMERS.items() if timers.get(name, 0.0) > 0}
        seconds[OTHER] = max(0.0, total - sum(seconds.values()))
        return seconds

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
        for checkpoint in data.checkpoints:
            if checkpoint.problem:
                yield checkpoint.problem
        for export in list_at(data.result, "exports"):
            if problem := at_path(export, "problem"):
                yield f"export of {at_path(export, 'behavior')} failed: {problem}"

    @property
    def _results(self) -> Mapping[str, Mapping[str, Any]]:
        results = items_at(self.data.result, "behaviors")
        return {name: result for name, result in results if isinstance(result, Mapping)}


def read_runs(paths: Sequence[Path]) -> tuple[list[ReportedTraining], list[str]]:
    """The runs that ``paths`` name, each once, and a line for each unreadable run.

    A path is a run directory, the id of a run in ``results``, or the same for a study, which stands for its runs.
    Raises RunStateError for a path that names neither.
    """
    by_directory: dict[Path, RunData] = {}
    problems = []
    for directory in [run for path in paths for run in runs_named(path)]:
        try:
            data = read_run(directory)
        except (ConfigError, PluginError) as error:
            problems.append(f"{directory}: left out: {error}")
            continue
        by_directory.setdefault(data.directory.resolve(), data)
    counts = Counter(directory.name for directory in by_directory)
    runs = []
    for directory, data in by_directory.items():
        name = directory.name
        if counts[name] > 1:
            name = str(data.directory)
        runs.append(ReportedTraining(name, data))
    return runs, problems


def runs_to(purpose: str, paths: Sequence[Path]) -> tuple[list[ReportedTraining], list[str]]:
    """The answer of :func:`read_runs` for a command, which prints the problems as warnings.

    Raises RunStateError, with the ``purpose`` such as ``compare``, if no run can be read.
    """
    runs, problems = read_runs(paths)
    for problem in problems:
        echo(f"warning: {problem}", err=True)
    if not runs:
        raise RunStateError(f"no run can be read, so there is nothing to {purpose}")
    return runs, problems


def _timers(node: Any, depth: int = 0) -> Iterator[tuple[str, float]]:
    """The known timers in a tree, each with its seconds. What is inside a known timer belongs to it."""
    if depth > 10:  # another program may have written the file
        return
    for name, child in items_at(node, "children"):
        if name in TIMERS:
            yield name, finite(at_path(child, "total")) or 0.0
        else:
            yield from _timers(child, depth + 1)
