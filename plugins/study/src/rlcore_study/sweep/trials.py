"""The directory of a sweep: what was asked for, and one directory for each trial with its runs and its record.

``sweep.json`` has the configuration that the sweep began with. ``trial-0007/trial.json`` has the values of a trial,
what its runs have reached, and at the end how the trial ended. Every file is replaced in one step, so that a killed
process leaves the old one or the new one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

import attrs

from rlcore import DamagedFile, RunStateError, is_number, is_whole, read_object, read_settings, write_atomically
from rlcore_study.sweep.settings import MAX_TRIALS, SweepSettings

SWEEP = "sweep.json"
TRIAL = "trial.json"
FORMAT = 1
ENDED = ("complete", "pruned", "failed")
_DIRECTORY = re.compile(r"trial-(\d{4,})")


@attrs.frozen
class SeedResult:
    """A run of a trial that has ended.

    Attributes:
        score: The metric of the run.
        evaluations: Pairs of the agent steps and the score of each evaluation.
    """

    score: float
    evaluations: tuple[tuple[int, float], ...]


@attrs.frozen
class Trial:
    """One trial.

    Attributes:
        number: The number of the trial, from 0.
        seen: How many trials, the first ones, the choice of its values knew the results of.
        parameters: The values by parameter; without those whose condition was not met.
        runs: The runs that have ended, by name.
        state: ``complete``, ``pruned`` or ``failed``; None before the trial has ended.
        value: What the trial is worth; None unless it is complete.
        intermediate: What it seemed to be worth after each evaluation, by the number of the evaluation.
        pruner: What Optuna's pruner noted about the trial.
        reason: Why it failed or was pruned.
    """

    number: int
    seen: int
    parameters: Mapping[str, Any]
    runs: Mapping[str, SeedResult] = attrs.field(factory=dict)
    state: str | None = None
    value: float | None = None
    intermediate: Mapping[int, float] = attrs.field(factory=dict)
    pruner: Mapping[str, Any] = attrs.field(factory=dict)
    reason: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be trained."""
        return self.state is not None

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"trial-{self.number:04d}"


@attrs.frozen
class SavedSweep:
    """A sweep as its directory records it.

    Attributes:
        directory: The directory of the sweep.
        settings: The block ``sweep``.
        document: The configuration that the sweep began with.
        evaluations: The evaluations that a run makes if nothing ends it early.
    """

    directory: Path
    settings: SweepSettings
    document: Mapping[str, Any]
    evaluations: int

    def runs(self) -> list[tuple[str, str, int]]:
        """The runs of each trial in their order: name, environment (may be empty) and seed."""
        runs = []
        for environment in self.settings.environments or [""]:
            for seed in self.settings.seeds:
                name = f"{environment}-seed-{seed}".removeprefix("-")
                runs.append((name, environment, seed))
        return runs

    def place(self, number: int) -> Path:
        """The directory of a trial."""
        return self.directory / f"trial-{number:04d}"

    def worth(self, trial: Trial) -> float:
        """Return the value of a trial whose runs have all ended."""
        scores = []
        for name, environment, _ in self.runs():
            score = trial.runs[name].score
            scores.append(self.settings.normalized(environment, score))
        return sum(scores) / len(scores)

    def intermediate(
        self, trial: Trial, run: str | None = None, evaluations: Sequence[tuple[int, float]] = ()
    ) -> dict[int, float]:
        """Return the value that a trial seemed to have after each evaluation of its ended runs, and of ``run``.

        A run's evaluation is compared with the evaluation of the same number in other trials, so that it is counted as
        if no run before it had ended early. Its value is the mean of the score and of the runs before it.
        """
        by_evaluation: dict[int, float] = {}
        before: list[float] = []
        for index, (name, environment, _) in enumerate(self.runs()):
            result = trial.runs.get(name)
            if result is None and name != run:
                break
            first = index * self.evaluations
            of_run = evaluations if result is None else result.evaluations
            for number, (_, score) in enumerate(of_run, 1):
                scores = [*before, self.settings.normalized(environment, score)]
                # More evaluations than planned do not count as those of the next run.
                by_evaluation[first + min(number, self.evaluations)] = sum(scores) / len(scores)
            if result is None:
                break
            before.append(self.settings.normalized(environment, result.score))
        return by_evaluation

    # ------------------------------------------------------------ files

    def write(self) -> None:
        """Write ``sweep.json``."""
        data = {
            "format": FORMAT,
            "evaluations": self.evaluations,
            "sweep": attrs.asdict(self.settings),
            "configuration": self.document,
        }
        _write(self.directory / SWEEP, data)

    def write_trial(self, trial: Trial) -> None:
        """Write the record of a trial into its directory, which is made."""
        directory = self.place(trial.number)
        with writing(directory):
            directory.mkdir(exist_ok=True)
        data = attrs.asdict(trial, filter=lambda field, value: value not in (None, "", {}))
        data["runs"] = {name: attrs.asdict(result) for name, result in trial.runs.items()}
        if trial.intermediate:
            data["intermediate"] = {str(step): value for step, value in trial.intermediate.items()}
        _write(directory / TRIAL, data)

    def trials(self) -> tuple[dict[int, Trial], list[str]]:
        """The trials that have a record, by number in ascending order, and a line for each record that is damaged."""
        by_number: dict[int, Trial] = {}
        problems = []
        for directory in sorted(self.directory.iterdir()):
            if not _DIRECTORY.fullmatch(directory.name) or not directory.is_dir():
                continue
            try:
                trial = read_trial(directory, self)
            except FileNotFoundError:
                continue
            except DamagedFile as error:
                # The sampler chooses equal values again: they depend on earlier trials and the seed alone.
                problems.append(f"{error}; its values are chosen again, and its runs are read or continued")
                continue
            by_number[trial.number] = trial
        return dict(sorted(by_number.items())), problems

    def missing(self, trials: Mapping[int, Trial]) -> list[str]:
        """A line for each trial before the last one whose directory is gone."""
        lines = []
        for number in range(max(trials, default=0)):
            directory = self.place(number)
            if number not in trials and not directory.exists():
                lines.append(f"{directory}: is missing; the trial is trained again")
        return lines

    def best(self, trials: Mapping[int, Trial]) -> Trial | None:
        """The complete trial with the best value, the first of several; None if no trial is complete."""
        sign = 1.0 if self.settings.direction == "maximize" else -1.0

        def rank(trial: Trial) -> tuple[float, int]:
            return sign * (trial.value or 0.0), -trial.number

        complete = [trial for trial in trials.values() if trial.state == "complete" and trial.value is not None]
        return max(complete, key=rank, default=None)


def ends_of(trials: Iterable[Trial]) -> str:
    """How many trials have ended how, such as ``3 complete, 1 pruned``; empty if none has ended."""
    counts = Counter(trial.state for trial in trials)
    return ", ".join(f"{counts[state]} {state}" for state in ENDED if counts[state])


def read_sweep(directory: Path) -> SavedSweep:
    """Read ``sweep.json``. Raises FileNotFoundError without one, DamagedFile for what is none."""
    path = directory / SWEEP
    data = read_object(path)
    version = data.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise RunStateError(
            f"{path}: has format {version}, of a newer rlcore-study, and this one reads {FORMAT}; upgrade rlcore-study "
            "to continue the sweep, or begin another one with --run-id"
        )
    if version != FORMAT:
        raise DamagedFile(f"{path}: has format {data.get('format')!r}; this version of rlcore-study reads {FORMAT}")
    settings, problems = read_settings(SweepSettings, data.get("sweep"))
    document = data.get("configuration")
    evaluations: Any = data.get("evaluations")
    if settings is None or not isinstance(document, dict) or not is_whole(evaluations):
        reason = problems[0][1] if problems else "has no configuration, or no number of evaluations"
        raise DamagedFile(f"{path}: is not the record of a sweep: {reason}")
    return SavedSweep(directory, settings, document, evaluations)


def read_trial(directory: Path, saved: SavedSweep) -> Trial:
    """Read the record of the trial of ``saved`` in ``directory``.

    Raises FileNotFoundError without one, and DamagedFile for what is none, or not of this sweep.
    """
    path = directory / TRIAL
    data = read_object(path)
    try:
        runs = {name: _run(result) for name, result in data.get("runs", {}).items()}
        intermediate = {int(step): float(value) for step, value in data.get("intermediate", {}).items()}
        trial = Trial(
            number=data["number"],
            seen=data["seen"],
            parameters=data["parameters"],
            runs=runs,
            state=data.get("state"),
            value=data.get("value"),
            intermediate=intermediate,
            pruner=data.get("pruner", {}),
            reason=str(data.get("reason", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DamagedFile(f"{path}: is not the record of a trial") from error
    match = _DIRECTORY.fullmatch(directory.name)
    of_directory = match is not None and is_whole(trial.number) and trial.number == int(match[1])
    if not of_directory or not _is_sound(trial):
        raise DamagedFile(f"{path}: is not the record of {directory.name}")
    if not _is_of(trial, saved):
        raise DamagedFile(f"{path}: has parameters, values or runs that this sweep does not have")
    return trial


def _is_sound(trial: Trial) -> bool:
    """Whether the values of a record, whatever they are, are those of a trial."""
    numbers = list(trial.intermediate.values())
    steps = list(trial.intermediate)
    for result in trial.runs.values():
        numbers.append(result.score)
        for step, score in result.evaluations:
            steps.append(step)
            numbers.append(score)
    if trial.value is not None:
        numbers.append(trial.value)
    return (
        is_whole(trial.seen)
        and trial.seen <= trial.number < MAX_TRIALS
        and isinstance(trial.parameters, dict)
        and isinstance(trial.pruner, dict)
        and all(map(is_number, trial.pruner.values()))
        and (trial.state is None or trial.state in [*ENDED])
        and (trial.state == "complete") == (trial.value is not None)
        and all(is_number(number) and isfinite(number) for number in numbers)
        and all(step >= 0 for step in steps)
    )


def _is_of(trial: Trial, saved: SavedSweep) -> bool:
    """Whether the sweep has the parameters of the record, their values and its runs."""
    searched = saved.settings.parameters
    for name, value in trial.parameters.items():
        if name not in searched or not searched[name].has(value):
            return False
    runs = {name for name, _, _ in saved.runs()}
    if trial.state == "complete":
        return trial.runs.keys() == runs
    return trial.runs.keys() <= runs


def _run(data: Mapping[str, Any]) -> SeedResult:
    evaluations = tuple((int(step), float(score)) for step, score in data["evaluations"])
    return SeedResult(float(data["score"]), evaluations)


def trial_of_run(run: Path) -> tuple[SavedSweep, Trial] | None:
    """The sweep and the trial that a run directory belongs to; None for a run of its own."""
    directory = run.parent
    if not (directory / TRIAL).is_file() or not (directory.parent / SWEEP).is_file():
        return None
    saved = read_sweep(directory.parent)
    return saved, read_trial(directory, saved)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """For a block that writes ``path``: an error of the operating system becomes a RunStateError."""
    try:
        yield
    except OSError as error:
        raise RunStateError(
            f"{path}: cannot be written: {error.strerror or error}; nothing is lost: fix that, and the same command "
            "continues"
        ) from error


def _write(path: Path, data: Mapping[str, Any]) -> None:
    with writing(path):
        write_atomically(path, json.dumps(data, indent=1).encode())
