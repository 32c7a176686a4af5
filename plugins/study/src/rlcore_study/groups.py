"""Groups of runs: those that differ only in their seed, such as the runs of a study, or those that the user names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain, takewhile
from typing import Any

import attrs
import click

from rlcore import ConfigError, did_you_mean, dotted
from rlcore_study.documents import by_path
from rlcore_study.names import study_of
from rlcore_study.runs import ReportedTraining


@attrs.frozen(eq=False)
class Group:
    """Runs that are shown as one curve with a band.

    Attributes:
        name: The name in legends and tables.
        runs: At least one run.
    """

    name: str
    runs: tuple[ReportedTraining, ...]


def without_start(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without the seed, and without the block that says how a run was started."""
    remaining = dict(configuration)
    remaining.pop("checkpoint_settings", None)
    block = remaining.get("env_settings")
    if isinstance(block, Mapping):
        remaining["env_settings"] = {name: value for name, value in block.items() if name != "seed"}
    return remaining


def flat(configuration: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """The values of :func:`without_start` by path."""
    return by_path(without_start(configuration))


def grouped(
    runs: Sequence[ReportedTraining], named: Sequence[tuple[str, str]] = (), separate: bool = False
) -> list[Group]:
    """The groups of ``runs`` in the order of their first runs.

    Runs whose configurations differ in nothing but the seed are one group, unless ``separate``. ``named`` has pairs of
    a name and a pattern of run names, such as ``("wide", "wide-*")``: these runs are one group, whatever they differ
    in. Raises ConfigError for a pattern that fits no run.
    """
    for name, pattern in named:
        if not any(fnmatchcase(run.name, pattern) for run in runs):
            names = [run.name for run in runs]
            raise ConfigError(f"--group {name}={pattern}: no run has such a name{did_you_mean(pattern, names)}")
    members: dict[Any, list[ReportedTraining]] = {}
    chosen_names: dict[Any, str] = {}  # by key of a group
    for number, run in enumerate(runs):
        matching = [name for name, pattern in named if fnmatchcase(run.name, pattern)]
        key: Any = number
        if matching:
            key = ("named", matching[0])
            chosen_names[key] = matching[0]
        elif not separate:
            key = repr(sorted(flat(run.data.configuration).items()))  # values may be lists, which are no keys of dicts
        members.setdefault(key, []).append(run)
    groups: list[Group] = []
    used = {name for name, _ in named}
    for key, of_group in members.items():
        name = chosen_names.get(key) or _free(_name(of_group), used)
        used.add(name)
        groups.append(Group(name, tuple(of_group)))
    return groups


def _name(runs: Sequence[ReportedTraining]) -> str:
    """The run's own name, the name of their study, or the beginning that the names of several runs share."""
    names = [run.name for run in runs]
    if len(names) == 1:
        return names[0]
    studies = {study_of(name) for name in names}
    study = studies.pop()
    if study is not None and not studies:
        return study
    equal = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    beginning = "".join(letters[0] for letters in equal)
    shared = beginning.rstrip("-_./0123456789 ")
    return shared or f"{names[0]} and {len(names) - 1} more"


def _free(name: str, used: set[str]) -> str:
    free = name
    number = 1
    while free in used:
        number += 1
        free = f"{name} ({number})"
    return free


def differences(groups: Sequence[Group], text_of: Callable[[Any], str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The dotted keys in which runs differ: for each group the values of its runs, without repetitions.

    ``text_of`` writes a value as text; a missing key is ``not set``.
    """
    configurations = [[flat(run.data.configuration) for run in group.runs] for group in groups]
    keys: dict[tuple[str, ...], None] = {}  # in the order of the files
    for configuration in chain(*configurations):
        keys |= dict.fromkeys(configuration)
    differing = {}
    for key in keys:
        texts = []
        for of_group in configurations:
            values = [text_of(values[key]) if key in values else "not set" for values in of_group]
            texts.append(tuple(dict.fromkeys(values)))
        if len(set(chain(*texts))) > 1:
            differing[dotted(key)] = tuple(texts)
    return differing


def named_group(text: str) -> tuple[str, str]:
    """Name and pattern of ``--group NAME=PATTERN``. Raises click.UsageError for another text."""
    name, equals, pattern = text.partition("=")
    if not (name and equals and pattern):
        raise click.UsageError(f"--group {text}: write NAME=PATTERN, such as 'wide=wide-*'")
    return name, pattern
