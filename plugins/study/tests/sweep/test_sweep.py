"""A sweep as its user sees it: added trials, failed trials, damaged files, changed files, and the messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from sweeps import NOISE, RATE, SPACE, Place, configuration

from rlcore_study.sweep.trials import read_sweep

pytestmark = pytest.mark.learning


def test_a_failed_trial_is_recorded_and_the_others_are_trained(place: Place) -> None:
    # Above 3.0, the trainer diverges.
    space = {RATE: {"choices": [0.5, 5.0]}, "behaviors.Agent.hyperparameters.layers": {"choices": [[64, 64]]}}
    place.write(configuration({"trials": 2, "sampler": "grid", "parameters": space}))
    ended = place.sweep()
    records = [place.trial(0), place.trial(1)]
    assert sorted(each["state"] for each in records) == ["complete", "failed"]
    (failed,) = [each for each in records if each["state"] == "failed"]
    assert failed["parameters"][RATE] == 5.0 and "the rate 5.0 is too large" in failed["reason"]
    assert "done: 2 trials, 1 complete, 1 failed" in ended.stdout

    (place.directory / "best.yaml").write_text((place.results / "best.yaml").read_text())
    best = yaml.safe_load((place.directory / "best.yaml").read_text())
    assert best["behaviors"]["Agent"]["hyperparameters"] == {
        "rate": 0.5, "noise": 0.02, "kind": "plain", "momentum": 0.5, "layers": [64, 64],
    }  # fmt: skip
    assert "sweep" not in best and best["checkpoint_settings"]["run_id"] == "s-best"


def test_a_sweep_of_failures_says_why(place: Place) -> None:
    place.write(configuration({"trials": 1, "parameters": {RATE: {"low": 4.0, "high": 5.0}}}))
    ended = place.sweep(code=5)
    assert "no trial has a value" in ended.stderr and "is too large" in ended.stderr


def test_trials_are_added_and_other_changes_are_refused(place: Place) -> None:
    place.write(configuration({"trials": 1}))
    place.sweep()
    before = place.state()
    place.sweep("--trials", "2")
    assert place.state()["trial-0000"] == before["trial-0000"] and place.trial(1)["state"] == "complete"

    place.write(configuration({"trials": 2, "parameters": {**SPACE, NOISE: {"low": 0.0, "high": 0.2}}}))
    refused = place.sweep(code=2).stderr
    assert refused.count("\n") == 1 and f"began with other values of sweep.parameters.'{NOISE}'.high" in refused
    place.write(configuration({"trials": 2}, seconds=0.001))
    assert "other values of environment.options.seconds (sweep.json has them)" in place.sweep(code=2).stderr


def test_damaged_records_and_deleted_trials_lose_nothing(place: Place) -> None:
    place.write(configuration({"trials": 3, "jobs": 2}))
    place.sweep()
    whole = place.state()
    record = place.results / "trial-0001/trial.json"
    record.write_bytes(record.read_bytes()[:-40])  # a torn end
    shutil.rmtree(place.results / "trial-0000")
    (place.results / "sweep.json").write_text("{")
    (place.results / "best.yaml").unlink()
    run = place.results / "trial-0001/seed-1/result.json"
    written = run.stat().st_mtime_ns
    ended = place.sweep()
    assert place.state() == whole
    assert run.stat().st_mtime_ns == written  # its run was read, not trained
    lines = ended.stderr.splitlines()
    assert len(lines) == 3
    assert "sweep.json: is not JSON" in lines[0] and "written again from the configuration" in lines[0]
    assert "trial-0001/trial.json: is not JSON" in lines[1] and "its values are chosen again" in lines[1]
    assert "trial-0000: is missing; the trial is trained again" in lines[2]


def test_several_seeds_and_environments_are_runs_of_one_trial(place: Place) -> None:
    cases: dict[str, Any] = {
        "near": {"values": {"environment.options.scale": 1.0}, "target": 7.0},
        "far": {"values": {"environment.options.scale": 10.0}, "target": 70.0, "floor": 10.0},
    }
    place.write(configuration({"trials": 1, "seeds": [3, 4], "environments": cases}))
    place.sweep()
    trial = place.trial(0)
    names = ["near-seed-3", "near-seed-4", "far-seed-3", "far-seed-4"]
    assert list(trial["runs"]) == names
    scores = []
    for name in names:
        result = json.loads((place.results / "trial-0000" / name / "result.json").read_text())
        configured = yaml.safe_load((place.results / "trial-0000" / name / "configuration.yaml").read_text())
        assert configured["env_settings"]["seed"] == int(name[-1])
        scores.append(result["evaluation"]["score"])
    expected = (scores[0] / 7 + scores[1] / 7 + (scores[2] - 10) / 60 + (scores[3] - 10) / 60) / 4
    assert trial["value"] == pytest.approx(expected, rel=1e-12)
    assert scores[0] != scores[1] and scores[2] == pytest.approx(10 * scores[0])


def test_the_number_of_jobs_changes_the_speed_alone(place: Place, tmp_path: Path) -> None:
    sweep = {"trials": 6, "unseen": 2, "startup_trials": 2, "pruner": "successive-halving"}
    place.write(configuration({**sweep, "jobs": 1}))
    place.sweep()
    other = Place(tmp_path / "other")
    other.directory.mkdir()
    other.write(configuration({**sweep, "jobs": 3}, seconds=0.001))
    other.sweep()
    assert {**place.state(), "best": ""} == {**other.state(), "best": ""}
    assert [place.trial(number)["seen"] for number in range(6)] == [0, 0, 0, 1, 2, 3]


def test_a_directory_of_a_run_is_refused(place: Place) -> None:
    place.write(configuration({}))
    place.results.mkdir(parents=True)
    (place.results / "rlcore_run.json").write_text("{}")
    refused = place.sweep(code=5).stderr
    assert refused == "error: results/s: is the directory of a run; give the sweep another name with --run-id\n"


def test_the_block_is_kept_with_what_was_left_to_the_sweep(place: Place) -> None:
    place.write(configuration({"trials": 1, "jobs": 3, "seed": 5}))
    place.sweep()
    saved = read_sweep(place.results)
    assert (saved.settings.unseen, saved.settings.seeds, saved.evaluations) == (2, [5], 6)
    place.sweep("--trials", "2", "--jobs", "1")
    assert read_sweep(place.results).settings.unseen == 2
    assert place.trial(1)["seen"] == 0
