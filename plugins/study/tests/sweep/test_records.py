"""The records of a sweep that are damaged, of another version, or written by another process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlcore import RunStateError, read_settings
from rlcore_study.sweep.opening import _locked
from rlcore_study.sweep.settings import SweepSettings
from rlcore_study.sweep.trials import SavedSweep, SeedResult, Trial, read_sweep


def study_of(place: Path, **more: Any) -> SavedSweep:
    settings, problems = read_settings(
        SweepSettings, {"parameters": {"a.b": {"low": 1, "high": 5}}, "seeds": [1], **more}
    )
    assert not problems
    saved = SavedSweep(place, settings, {}, 4)
    saved.write()
    return saved


DAMAGES: dict[str, dict[str, Any]] = {
    "value of another type": {"value": "nan"},
    "value too large": {"value": 10**400},
    "state of another type": {"state": []},
    "unknown parameter": {"parameters": {"a.c": 2}},
    "value out of range": {"parameters": {"a.b": 9}},
    "true instead of a number": {"parameters": {"a.b": True}},
    "runs that are no mapping": {"runs": [1]},
    "unknown run": {"runs": {"other": {"score": 1.0, "evaluations": []}}},
    "score that is not finite": {"runs": {"seed-1": {"score": 1e999, "evaluations": []}}},
    "evaluations that are no pairs": {"runs": {"seed-1": {"score": 1.0, "evaluations": [1, 2]}}},
    "steps below 0": {"intermediate": {"-1": 1.0}},
    "notes of another type": {"pruner": {"completed_rung_0": "x"}},
    "more seen than there are": {"seen": 9},
    "another number": {"number": 3},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_said_and_chosen_again(tmp_path: Path, damage: str) -> None:
    saved = study_of(tmp_path, pruner="median")
    sound = Trial(1, 0, {"a.b": 2}, {"seed-1": SeedResult(1.0, ((10, 0.5),))}, "complete", 1.0, {1: 0.5})
    saved.write_trial(sound)
    assert saved.trials() == ({1: sound}, [])
    path = tmp_path / "trial-0001" / "trial.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | DAMAGES[damage]))
    found, (problem,) = saved.trials()
    assert not found and "trial-0001/trial.json: " in problem and "its values are chosen again" in problem


def test_a_directory_with_a_huge_number_is_no_trial(tmp_path: Path) -> None:
    saved = study_of(tmp_path)
    saved.write_trial(Trial(10**9, 0, {"a.b": 2}))
    found, problems = saved.trials()
    assert not found and len(problems) == 1 and saved.missing(found) == []


def test_a_sweep_of_a_newer_version_is_not_written_again(tmp_path: Path) -> None:
    study_of(tmp_path)
    path = tmp_path / "sweep.json"
    newer = json.dumps(json.loads(path.read_text()) | {"format": 2})
    path.write_text(newer)
    with pytest.raises(RunStateError, match="has format 2, of a newer rlcore-study, and this one reads 1; upgrade"):
        read_sweep(tmp_path)
    assert path.read_text() == newer


def test_two_sweeps_of_one_name_at_once_say_so(tmp_path: Path) -> None:
    said = "another process is writing to this run .*, or give this sweep another name with --run-id"
    with _locked(tmp_path, 0.0), pytest.raises(RunStateError, match=said), _locked(tmp_path, 0.0):
        pass
