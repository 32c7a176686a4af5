"""Records of the trials of a sweep: ``sweep.json`` and ``trials.csv`` in its directory, and a table."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import attrs

from rlcore import ConfigError, RunStateError, cells, is_whole, plain_console, read_object, read_run, write_atomically
from rlcore_ray.sweep_file import SweepPlan, Trial

__all__ = ["Record", "Records", "score_of"]

FILE, TABLE = "sweep.json", "trials.csv"
WAITING, DONE, FAILED, INTERRUPTED, LOST = "waiting", "done", "failed", "interrupted", "lost"


@attrs.define
class Record:
    """State and results of a trial.

    Attributes:
        trial: The trial.
        status: ``waiting``, ``done``, ``failed``, ``interrupted`` or ``lost``.
        score: The score of the run; see :func:`score_of`. None before the end.
        best_score: The best score of the run's evaluations; None without one.
        steps: Agent steps of all behaviors.
        seconds: Duration of all processes of the run.
        restarts: How often the trial was resumed because its process or host was lost.
        problem: The last error of the trial, in one line; empty without one.
    """

    trial: Trial
    status: str = WAITING
    score: float | None = None
    best_score: float | None = None
    steps: int | None = None
    seconds: float | None = None
    restarts: int = 0
    problem: str = ""

    def read(self, directory: Path) -> bool:
        """Take what the run has written, and return whether it has a checkpoint to resume from."""
        try:
            data = read_run(directory)
        except (ConfigError, RunStateError):
            return False
        result = data.result
        if result is not None:
            self.status = str(result["outcome"])
            self.score, self.best_score = score_of(result)
            self.steps = sum(each["steps"] for each in result["behaviors"].values() if is_whole(each.get("steps")))
            self.seconds = result.get("wall_seconds")
        return any(not each.problem for each in data.checkpoints)

    def as_json(self) -> dict[str, Any]:
        """Return the record as ``sweep.json`` has it."""
        own = attrs.asdict(self, filter=lambda attribute, _: attribute.name != "trial")
        overrides = dict(self.trial.point) | ({} if self.trial.seed is None else {"env_settings.seed": self.trial.seed})
        return {"name": self.trial.name, "overrides": overrides, "configuration_sha256": self.trial.digest, **own}


def score_of(result: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the score of a ``result.json``, and the best score of its evaluations.

    The score is that of the last evaluation. Without evaluations, it is the mean reward of the last 100 training
    episodes, averaged over behaviors; None if a behavior ended no episode.
    """
    scores = result.get("evaluation")
    if isinstance(scores, Mapping) and scores.get("score") is not None:
        return float(scores["score"]), float(scores["best_score"])
    rewards = [each.get("mean_reward") for each in result["behaviors"].values()]
    if not rewards or any(reward is None for reward in rewards):
        return None, None
    return fmean(rewards), None


@attrs.frozen
class Records:
    """The records of all trials.

    Attributes:
        plan: The sweep.
        records: The records in the order of the trials.
        others: Records of earlier trials that the file no longer describes; they are kept.
    """

    plan: SweepPlan
    records: Sequence[Record]
    others: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, plan: SweepPlan) -> Self:
        """Read what earlier starts of the sweep left. Raises ConfigError if a trial has another configuration now."""
        known = _written(plan.directory)
        names = {trial.name for trial in plan.trials}
        records = []
        for trial in plan.trials:
            record, directory = Record(trial), plan.directory / trial.name
            before = known.get(trial.name)
            if before is None and directory.exists():
                raise ConfigError(f"{directory}: exists, and {FILE} does not list it; move it, or rename the sweep")
            if before is not None and directory.exists() and before["configuration_sha256"] != trial.digest:
                raise ConfigError(
                    f"{plan.config}: has changed since {directory} was trained; give the sweep another name"
                )
            if before is not None:
                record.restarts = before["restarts"] if is_whole(before.get("restarts")) else 0
            if directory.exists():
                record.read(directory)
            records.append(record)
        return cls(plan, records, [each for name, each in known.items() if name not in names])

    def write(self) -> None:
        """Write ``sweep.json`` and ``trials.csv``."""
        trials = [each.as_json() for each in self.records]
        content = {"sweep": self.plan.name, "config": str(self.plan.config), "trials": [*trials, *self.others]}
        write_atomically(self.plan.directory / FILE, json.dumps(content, indent=2).encode())
        keys = list(dict.fromkeys(key for each in trials for key in each["overrides"]))
        fields = ["name", *keys, "status", "score", "best_score", "steps", "seconds", "restarts", "problem"]
        text = io.StringIO()
        writer = csv.DictWriter(text, fields, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**each["overrides"], **each} for each in trials)
        write_atomically(self.plan.directory / TABLE, text.getvalue().encode())

    def print(self) -> None:
        """Print a table with a row for each combination of values, the best score first."""
        from rich.table import Table

        points: dict[str, list[Record]] = {}
        for record in self.records:
            points.setdefault(json.dumps(dict(record.trial.point), sort_keys=True, default=str), []).append(record)
        table = Table(*(key.rpartition(".")[2] for key in self.plan.varied), "score", "lowest", "highest", "trials")
        rows = sorted(points.values(), key=_mean_score, reverse=True)
        for row in rows:
            values = (row[0].trial.point[key] for key in self.plan.varied)
            table.add_row(*cells(*values, *_scores(row), _counts(row)))
        plain_console().print(table)


def _written(directory: Path) -> dict[str, Mapping[str, Any]]:
    try:
        content = read_object(directory / FILE)
    except FileNotFoundError:
        return {}
    trials = content.get("trials")
    found = [each for each in trials if isinstance(each, Mapping)] if isinstance(trials, list) else []
    if not found or any(not {"name", "configuration_sha256"} <= each.keys() for each in found):
        raise RunStateError(f"{directory / FILE}: is not the file of a sweep; move it, or rename the sweep")
    return {str(each["name"]): each for each in found}


def _scored(records: Iterable[Record]) -> list[float]:
    return [each.score for each in records if each.score is not None and each.status == DONE]


def _mean_score(records: Sequence[Record]) -> float:
    found = _scored(records)
    return fmean(found) if found else float("-inf")


def _scores(records: Sequence[Record]) -> tuple[str, str, str]:
    found = _scored(records)
    if not found:
        return "-", "-", "-"
    return f"{fmean(found):.2f}", f"{min(found):.2f}", f"{max(found):.2f}"


def _counts(records: Sequence[Record]) -> str:
    """``2 done, 1 failed``."""
    counts = Counter(record.status for record in records)
    return ", ".join(f"{count} {status}" for status, count in counts.items())
