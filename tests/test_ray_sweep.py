"""Trials of a sweep equal runs with the same ``--set``, whatever happens to their processes, hosts and the sweep."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import signal
from pathlib import Path

import pytest
import yaml
from ray_jobs import (
    assert_equal_runs,
    begin,
    ended,
    listening,
    prepare,
    processes_of,
    rlcore,
    wait_until,
    wait_until_gone,
)
from ray_nodes import nodes

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
]
RATE = "behaviors.Pendulum.hyperparameters.learning_rate"
DIRECTORY = Path("results/rates")


def describe(where: Path, rates: list[float], seeds: list[int]) -> list[str]:
    """Write a sweep to ``where`` and return the commands that its trials equal."""
    prepare(where)
    content = {"config": "config.yaml", "grid": {RATE: rates}, "seeds": seeds}
    (where / "rates.yaml").write_text(yaml.safe_dump(content))
    return rlcore(where, "ray", "sweep", "rates.yaml", "--list").splitlines()


def name_in(command: str) -> str:
    words = command.split()
    return words[words.index("--run-id") + 1]


def assert_trials_equal_their_commands(where: Path, commands: list[str], plain: Path) -> None:
    prepare(plain)
    for command in commands:
        rlcore(plain, *command.split()[1:])
        assert_equal_runs(where / DIRECTORY / name_in(command), plain / DIRECTORY / name_in(command))


def test_a_trial_whose_process_is_killed_resumes_and_equals_the_run_of_its_command(tmp_path: Path) -> None:
    where = tmp_path / "sweep"
    commands = describe(where, [0.001, 0.01], [])
    first = name_in(commands[0])
    (where / f"kill-{first}").write_text("once\n")
    hold = where / f"hold-{first}"
    hold.touch()
    job = begin(where, "ray", "sweep", "rates.yaml", "--parallel", "2")
    wait_until(lambda: (where / f"saved-{first}").exists() or job.poll() is not None, "no checkpoint")
    started = processes_of(job)
    addresses = listening(started)
    hold.unlink()
    output = ended(job)
    assert job.returncode == 0, output
    assert addresses == {"127.0.0.1"}
    assert f"{first}: its process ended by signal 9; it starts again" in output
    assert f"{first}: resumes on " in output
    wait_until_gone(started)
    assert_trials_equal_their_commands(where, commands[:1], tmp_path / "plain")
    with (where / DIRECTORY / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["name"], row[RATE], row["status"], row["restarts"]) for row in rows] == [
        (first, "0.001", "done", "1"),
        (name_in(commands[1]), "0.01", "done", "0"),
    ]
    for row in rows:
        result = json.loads((where / DIRECTORY / row["name"] / "result.json").read_text())
        assert float(row["score"]) == result["behaviors"]["Pendulum"]["mean_reward"]
    again = rlcore(where, "ray", "sweep", "rates.yaml")  # starts no Ray
    assert "2 trials, 2 of them done before" in again and "starts on" not in again
    text = (where / "config.yaml").read_text()
    (where / "config.yaml").write_text(text.replace("num_epoch: 3", "num_epoch: 2"))
    refused = rlcore(where, "ray", "sweep", "rates.yaml", code=2)
    assert "config.yaml: has changed since results/rates/" in refused


@pytest.mark.deep
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_is_ended_continues_with_unfinished_trials(tmp_path: Path, end: signal.Signals) -> None:
    where = tmp_path / "sweep"
    commands = describe(where, [0.001], [1, 2])
    for command in commands:
        (where / f"hold-{name_in(command)}").touch()
    job = begin(where, "ray", "sweep", "rates.yaml", "--parallel", "2")
    saved = [where / f"saved-{name_in(command)}" for command in commands]
    wait_until(lambda: all(path.exists() for path in saved) or job.poll() is not None, "no checkpoint")
    started = processes_of(job)
    os.killpg(job.pid, end) if end == signal.SIGINT else job.send_signal(end)
    if end == signal.SIGKILL:  # no signal reaches the trials, which would continue until they end with the command
        wait_until_gone(started)
    for command in commands:
        (where / f"hold-{name_in(command)}").unlink()
    output = ended(job)
    assert job.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[end], output
    wait_until_gone(started)
    output = rlcore(where, "ray", "sweep", "rates.yaml")
    assert output.count(": resumes on ") == 2 and ": starts on " not in output
    assert_trials_equal_their_commands(where, commands, tmp_path / "plain")


@pytest.mark.deep
def test_a_trial_that_fails_is_named_and_the_others_are_run(tmp_path: Path) -> None:
    prepare(tmp_path)
    content = {"config": "config.yaml", "grid": {"environment.id": ["Pendulum-v9", "Pendulum-v1"]}}
    (tmp_path / "rates.yaml").write_text(yaml.safe_dump(content))
    output = rlcore(tmp_path, "ray", "sweep", "rates.yaml", "--parallel", "1", code=2)
    rows = json.loads((tmp_path / DIRECTORY / "sweep.json").read_text())["trials"]
    assert [row["status"] for row in rows] == ["failed", "done"]
    assert "Pendulum-v9" in rows[0]["problem"] and rows[0]["problem"] in output


@pytest.mark.deep
def test_trials_of_a_host_that_is_lost_resume_on_another_one(tmp_path: Path) -> None:
    where = tmp_path / "sweep"
    commands = describe(where, [0.001], [1, 2, 3])
    for command in commands:
        (where / f"hold-{name_in(command)}").touch()
    with nodes(3) as cluster:
        job = begin(where, "ray", "sweep", "rates.yaml", "--address", cluster.address)
        saved = [where / f"saved-{name_in(command)}" for command in commands]
        wait_until(lambda: all(path.exists() for path in saved) or job.poll() is not None, "no checkpoint")
        for change in ("kill", "kill", "add"):
            cluster.tell(change)
        for command in commands:
            (where / f"hold-{name_in(command)}").unlink()
        output = ended(job)
    assert job.returncode == 0, output
    assert output.count("its host or actor was lost; it starts again") == 2
    assert output.count(": resumes on ") == 2
    assert_trials_equal_their_commands(where, commands, tmp_path / "plain")
