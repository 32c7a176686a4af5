"""Groups of runs: those that differ only in their seed, such as the runs of a study, or those that the user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any

import attrs
import click

from rlcore import ConfigError, did_you_mean, dotted
from rlcore_study.documents import by_path
from rlcore_study.names import study_of
from rlcore_study.runs import ReportedRun


@attrs.frozen(eq=False)
class Group:
    """Runs that are shown as one curve with a band.

    Attributes:
        name: The name in legends and tables.
        runs: At least one run.
    """

    name: str
    runs: tuple[ReportedRun, ...]


def without_start(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without the seed, and without the block that says how a run was started."""
    kept = {key: value for key, value in configuration.items() if key != "checkpoint_settings"}
    if isinstance(block := kept.get("env_settings"), Mapping):
        kept["env_settings"] = {name: value for name, value in block.items() if name != "seed"}
    return kept


def flat(configuration: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """The values of :func:`without_start` by path."""
    return by_path(without_start(configuration))


def grouped(runs: Sequence[ReportedRun], named: Sequence[tuple[str, str]] = (), separate: bool = False) -> list[Group]:
    """The groups of ``runs`` in the order of their first runs.

    Runs whose configurations differ in nothing but the seed are one group, unless ``separate``. ``named`` has pairs of
    a name and a pattern of run names, such as ``("wide", "wide-*")``: these runs are one group, whatever they differ
    in. Raises ConfigError for a pattern that fits no run.
    """
    members: dict[tuple[str, Any], list[ReportedRun]] = {}
    for name, pattern in named:
        if not any(fnmatchcase(run.name, pattern) for run in runs):
            names = [run.name for run in runs]
            raise ConfigError(f"--group {name}={pattern}: no run has such a name{did_you_mean(pattern, names)}")
    for number, run in enumerate(runs):
        chosen = next((name for name, pattern in named if fnmatchcase(run.name, pattern)), None)
        key: tuple[str, Any]
        if chosen is not None:
            key = ("named", chosen)
        else:
            key = ("alone", number) if separate else ("equal", repr(sorted(flat(run.data.configuration).items())))
        members.setdefault(key, []).append(run)
    groups: list[Group] = []
    taken = {name for name, _ in named}
    for (kind, key), found in members.items():
        name = str(key) if kind == "named" else _free(_name(found), taken)
        taken.add(name)
        groups.append(Group(name, tuple(found)))
    return groups


def _name(runs: Sequence[ReportedRun]) -> str:
    """The run's own name, the name of their study, or the beginning that the names of several runs share."""
    if len(runs) == 1:
        return runs[0].name
    studies = {study_of(run.name) for run in runs}
    if len(studies) == 1 and (study := studies.pop()) is not None:
        return study
    letters = zip(*[run.name for run in runs], strict=False)
    equal = takewhile(lambda each: len(set(each)) == 1, letters)
    shared = "".join(each[0] for each in equal).rstrip("-_./0123456789 ")
    return shared or f"{runs[0].name} and {len(runs) - 1} more"


def _free(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(found for number in range(2, len(taken) + 3) if (found := f"{name} ({number})") not in taken)


def differences(groups: Sequence[Group], shown: Any) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The dotted keys in which runs differ: for each group the values of its runs, without repetitions.

    ``shown`` writes a value as text; a missing key is ``not set``.
    """
    configurations = [[flat(run.data.configuration) for run in group.runs] for group in groups]
    keys = {key: None for group in configurations for each in group for key in each}
    found = {}
    for key in keys:
        texts = tuple(
            tuple(dict.fromkeys(shown(each[key]) if key in each else "not set" for each in group))
            for group in configurations
        )
        if len({text for group in texts for text in group}) > 1:
            found[dotted(key)] = texts
    return found


def named_group(text: str) -> tuple[str, str]:
    """Name and pattern of ``--group NAME=PATTERN``. Raises click.UsageError for another text."""
    name, equals, pattern = text.partition("=")
    if not (name and equals and pattern):
        raise click.UsageError(f"--group {text}: write NAME=PATTERN, such as 'wide=wide-*'")
    return name, pattern
