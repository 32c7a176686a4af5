"""The study or the sweep that a run belongs to, by the names that ``rlcore run --seeds`` and ``rlcore sweep`` give.

Run directories are the only record of both, so their names also say it of a run that is sent later, or resumed alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs

_RUN_OF_STUDY = re.compile(r"(?P<study>.+)-seed-(?P<seed>\d+)")
_RUN_OF_TRIAL = re.compile(r"(?:(?P<environment>.+)-)?seed-(?P<seed>\d+)")
_TRIAL = re.compile(r"trial-(\d{4,})")


@attrs.frozen(kw_only=True)
class StudyMember:
    """The place of a run in a study or a sweep.

    Attributes:
        name: A name of the run that others of the project do not have: the id of the run, and before it the sweep and
            the trial, as in ``search-trial-0007-seed-1``.
        group: The name of the study or of the sweep; None for a run of its own.
        job_type: What the run is in the group; None for a run of its own.
        labels: The seed, and in a sweep the number of the trial and the environment, as texts.
    """

    name: str
    group: str | None = None
    job_type: Literal["seed", "trial"] | None = None
    labels: Mapping[str, str] = attrs.field(factory=dict)


def study_member(directory: Path) -> StudyMember:
    """Return what the run in ``directory``, an absolute path, is."""
    trial = directory.parent
    number = _TRIAL.fullmatch(trial.name)
    run = _RUN_OF_TRIAL.fullmatch(directory.name)
    if number and run and (trial / "trial.json").is_file() and (trial.parent / "sweep.json").is_file():
        sweep = trial.parent.name
        labels = {"trial": str(int(number[1]))}
        for key, text in run.groupdict().items():
            if text:  # a sweep in one environment has no name for it
                labels[key] = text
        return StudyMember(
            name=f"{sweep}-{trial.name}-{directory.name}",
            group=sweep,
            job_type="trial",
            labels=labels,
        )
    match = _RUN_OF_STUDY.fullmatch(directory.name)
    if match is None:
        return StudyMember(name=directory.name)
    labels = {"seed": match["seed"]}
    return StudyMember(name=directory.name, group=match["study"], job_type="seed", labels=labels)
