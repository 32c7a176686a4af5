"""The rule for names that become part of a path: a run id, a behavior's name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlcore.config.problems import shown

__all__ = ["name_problem"]

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"

# Names beside a behavior's files in a run directory, and beside its entry in a checkpoint and in the status.
_FILES = ("configuration.yaml", "metrics.jsonl", "metrics.jsonl.damaged", "result.json", "rlcore_run.json")
RESERVED = frozenset({"run", "metadata", "checkpoints", "run_logs", *_FILES})


def name_problem(what: str, name: str) -> str | None:
    """Return the problem of a name that becomes part of a path, or None."""
    if re.fullmatch(NAME_PATTERN, name) and ".." not in name:
        return None
    return (
        f"{what} is 1 to 100 letters, digits, '.', '_' or '-', begins with a letter or digit and has no '..', "
        f"not {shown(name)}"
    )


def behavior_name_problems(names: Iterable[str]) -> dict[str, str]:
    """Return the problems of the names of one run's behaviors, by name; a valid name has no entry.

    Files are named after behaviors, also on file systems that do not distinguish upper and lower case.
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.casefold(), []).append(name)
    problems: dict[str, str] = {}
    for folded, twins in alike.items():
        for name in twins:
            problem = name_problem("a behavior's name", name)
            if folded in RESERVED:
                problem = f"{name!r} is a name that rlcore uses itself in a run; give the behavior another name"
            elif len(twins) > 1:
                other = next(twin for twin in twins if twin != name)
                problem = f"{name!r} and {other!r} differ only in upper and lower case, and files are named after them"
            if problem is not None:
                problems[name] = problem
    return problems
