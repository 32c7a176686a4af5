"""The study or sweep of a run, by the names of its directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore_trackers.study import StudyMember, study_member


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("walk", StudyMember(name="walk")),
        ("seed-3", StudyMember(name="seed-3")),
        (
            "walk-seed-3",
            StudyMember(name="walk-seed-3", group="walk", job_type="seed", labels={"seed": "3"}),
        ),
    ],
)
def test_a_run_of_a_study_has_its_name_and_its_seed(tmp_path: Path, name: str, member: StudyMember) -> None:
    assert study_member(tmp_path / name) == member


@pytest.mark.parametrize(
    ("run", "labels"),
    [
        ("seed-1", {"trial": "7", "seed": "1"}),
        ("cart-pole-seed-1", {"trial": "7", "environment": "cart-pole", "seed": "1"}),
    ],
)
def test_a_run_of_a_trial_has_the_sweep_and_a_name_of_its_own(tmp_path: Path, run: str, labels: dict[str, str]) -> None:
    trial = tmp_path / "search/trial-0007"
    trial.mkdir(parents=True)
    assert study_member(trial / run).job_type != "trial"  # the folders of no sweep
    (trial / "trial.json").touch()
    (tmp_path / "search/sweep.json").touch()
    assert study_member(trial / run) == StudyMember(
        name=f"search-trial-0007-{run}", group="search", job_type="trial", labels=labels
    )
