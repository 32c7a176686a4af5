"""The names of the runs of a study: ``base-seed-3`` is the run of seed 3 of the study ``base``."""

from __future__ import annotations

import re
from pathlib import Path

from rlcore import RunStateError, find_run

_RUN = re.compile(r"(.+)-seed-(0|[1-9]\d*)")


def run_id(study: str, seed: int) -> str:
    """The id of the run of a seed: ``base-seed-3``."""
    return f"{study}-seed-{seed}"


def study_of(name: str) -> str | None:
    """The study that a run belongs to by its id or its path; None for another run."""
    match = _RUN.fullmatch(name)
    return None if match is None else match[1]


def runs_named(path: Path) -> list[Path]:
    """The run that ``path``, a run directory or the id of a run, names, or else the runs of the study of this name.

    The runs of a study are in the order of their seeds. Raises RunStateError if there is neither.
    """
    if _is_run(path):
        return [path]
    for parent in (path.parent, Path("results") / path.parent):
        if not parent.is_dir():
            continue
        by_seed = {}
        for directory in parent.iterdir():
            match = _RUN.fullmatch(directory.name)
            if match and match[1] == path.name and _is_run(directory.absolute()):
                by_seed[int(match[2])] = directory
        if by_seed:
            return [by_seed[seed] for seed in sorted(by_seed)]
    find_run(path)  # which says what is wrong with the path
    return [path]


def _is_run(path: Path) -> bool:
    try:
        find_run(path)
    except RunStateError:
        return False
    return True
