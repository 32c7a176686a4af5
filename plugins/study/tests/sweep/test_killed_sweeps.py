"""A sweep whose processes were killed ends as one that was never killed, bit for bit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sweeps import Place, configuration, wait_until

from rlcore import find_checkpoints

KILLS = ("parent", "trial", "both", "save", "record")


def kill(place: Place, what: str, parent: subprocess.Popen[str]) -> None:
    """Kill the command, a trial, or both, at any moment, inside a save of a checkpoint or of a record."""
    if what == "save":
        wait_until(place.saves, every=0.0)
    if what == "record":
        wait_until(lambda: [*place.results.glob("**/.rlcore-tmp-*")], every=0.0)
    if what != "trial":
        parent.kill()
    if what != "parent":
        children = place.children()
        for child in children if what != "trial" else children[:1]:
            os.kill(child, signal.SIGKILL)
    if what != "trial":
        parent.communicate()


def killed_sweep(place: Place, moments: list[int], *words: str) -> None:
    """Run a sweep to its end that is killed in every way, each when as many trials as ``moments`` says have ended."""
    parent = place.start(*words)
    for what, moment in zip(KILLS, moments, strict=True):
        wait_until(lambda least=moment: place.ended() >= least and place.children())
        kill(place, what, parent)
        if what != "trial":
            parent = place.start(*words)
    output, errors = parent.communicate(timeout=600)
    assert parent.returncode == 0, output + errors


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.parametrize(("seed", "sampler"), [(1, "tpe"), (2, "tpe"), (3, "tpe"), (4, "cmaes")])
def test_a_sweep_of_20_trials_killed_five_times_equals_one_never_killed(
    tmp_path: Path, seed: int, sampler: str
) -> None:
    if sampler == "cmaes":
        pytest.importorskip("cmaes")
    sweep = {"trials": 20, "jobs": 2, "seed": seed, "sampler": sampler, "pruner": "median", "startup_trials": 4}
    ended: list[dict[str, Any]] = []
    for name in ("whole", "killed"):
        place = Place(tmp_path / name)
        place.directory.mkdir()
        place.write(configuration(sweep, seconds=0.002))
        if name == "whole":
            place.sweep()
        else:
            generator = random.Random(seed)
            killed_sweep(place, sorted(generator.sample(range(1, 14), len(KILLS))))
        ended.append(place.state())
    assert {each["state"] for name, each in ended[0].items() if isinstance(each, dict)} == {"complete", "pruned"}
    assert ended[0] == ended[1]


@pytest.mark.faults
def test_a_trial_that_kills_its_process_again_and_again_has_failed(place: Place) -> None:
    deadly = {"environment.options.deadly": {"choices": [False, True]}}
    place.write(configuration({"trials": 2, "sampler": "grid", "parameters": deadly}))
    place.sweep()
    states = {place.trial(number)["parameters"]["environment.options.deadly"]: place.trial(number) for number in (0, 1)}
    assert states[False]["state"] == "complete"
    assert states[True]["state"] == "failed"
    assert states[True]["reason"].startswith("killed by SIGKILL") and "5 times without" in states[True]["reason"]


@pytest.mark.faults
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a full disk needs a file system of its own"
)
def test_a_full_disk_loses_nothing(place: Place, tmp_path: Path) -> None:
    sweep = configuration({"trials": 4, "jobs": 2})
    place.write(sweep)
    whole = Place(tmp_path / "whole")
    whole.directory.mkdir()
    whole.write(sweep)
    whole.sweep()
    disk = place.directory / "results"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        errors = place.sweep(code=5).stderr
        assert errors.count("\n") == 1 and "No space left on device" in errors
        assert errors.endswith("nothing is lost: fix that, and the same command continues\n")
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        place.sweep()
        assert place.state() == whole.state()
    finally:
        place.close()
        subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.faults
@pytest.mark.daily
def test_a_killed_sweep_continues_with_the_same_command(place: Place, tmp_path: Path) -> None:
    place.write(configuration({"trials": 2, "jobs": 2}, seconds=0.003))
    parent = place.start()
    wait_until(lambda: place.last_step(0) >= 100 and place.last_step(1) >= 100)
    os.kill(place.children()[0], signal.SIGKILL)
    parent.kill()
    parent.communicate()
    wait_until(lambda: not place.children())  # the other one saved a checkpoint of what it had reached, and ended
    assert place.ended() == 0
    (path,) = place.results.glob("trial-*/*/result.json")  # a killed process writes none
    result = json.loads(path.read_text())
    assert result["stop"]["reason"] == "SIGTERM"
    assert find_checkpoints(path.parent / "checkpoints")[-1].step == result["behaviors"]["Agent"]["steps"]
    output = place.sweep().stdout
    assert "done: 2 trials, 2 complete" in output and "trial-0000  rate" not in output

    whole = Place(tmp_path / "whole")
    whole.directory.mkdir()
    whole.write(configuration({"trials": 2, "jobs": 2}))  # as fast as it can: no time is part of a result
    whole.sweep()
    best = place.state().pop("best")
    without_waiting = whole.state().pop("best")
    assert best.replace("seconds: 0.003", "seconds: 0.0").split("\n", 1)[1] == without_waiting.split("\n", 1)[1]
    assert {**place.state(), "best": ""} == {**whole.state(), "best": ""}
