"""Signals during what takes long, and what is left over when a run is done: the process ends, and soon."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import Any

import pytest

pytestmark = pytest.mark.faults

PIPE = subprocess.PIPE
ENDLESS = 10_000_000
# An evaluation that takes minutes: 20 episodes of up to 20 steps, each step half a second.
EVALUATION = {"interval": 50, "episodes": 20, "environment": {"num_envs": 1, "options": {"seconds": 0.5}}}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_a_long_evaluation_is_answered_at_once_and_costs_nothing(quick: Any, number: int) -> None:
    place = quick({"evaluation": EVALUATION}, checkpoint_interval=1000)
    process = place.start(stdout=PIPE, stderr=PIPE)
    begun = time.monotonic()
    while not (place.run / "configuration.yaml").exists() and time.monotonic() - begun < 30:
        time.sleep(0.05)  # the start takes long on a loaded machine
    time.sleep(2.5)  # training takes a tenth of a second to the first evaluation, which lasts for minutes
    sent = time.monotonic()
    process.send_signal(number)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + number, errors
    assert time.monotonic() - sent < 3.0
    assert place.steps == [50] and "evaluation" not in place.result and "interrupted: 50 steps" in output
    assert place.result["stop"] == {"reason": signal.Signals(number).name, "exit_code": 128 + number}
    # The resumed run plays the evaluation that was abandoned.
    assert place.finish("--resume", "--set", "evaluation.environment.options.seconds=0")[0] == 0
    ours = place.content(400), metrics(place), place.result["evaluation"]
    fast = EVALUATION | {"environment": {"num_envs": 1, "options": {"seconds": 0.0}}}
    place.configure({"evaluation": fast}, checkpoint_interval=1000)
    assert place.finish("--force")[0] == 0
    assert ours == (place.content(400), metrics(place), place.result["evaluation"])


def metrics(place: Any) -> list[Any]:
    lines = [json.loads(line) for line in (place.run / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["stats"].get("Evaluation/Cumulative Reward")) for line in lines]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_policy_that_only_acts_and_changes_no_file(quick: Any, number: signal.Signals) -> None:
    place = quick()
    assert place.finish()[0] == 0
    before = {path: path.read_bytes() for path in place.run.rglob("*") if path.is_file()}
    process = place.start("--inference", stdout=PIPE, stderr=PIPE)
    assert any("Not Training" in line for line in process.stdout)
    process.send_signal(number)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + number and output.splitlines()[-1].startswith("stopped after "), errors
    assert before == {path: path.read_bytes() for path in place.run.rglob("*") if path.is_file()}


def test_a_signal_that_is_sent_twice_at_once_counts_once(quick: Any) -> None:
    """``timeout`` sends it to the process and to its group; wrappers of commands pass Ctrl-C on."""
    place = quick(max_steps=ENDLESS)
    process = place.start(stdout=PIPE, stderr=PIPE)
    place.wait_for_checkpoint(process)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143
    assert place.result["outcome"] == "interrupted"
    place.assert_resumes()


@pytest.mark.parametrize("name", ["HUP", "INT"])
def test_a_signal_that_was_ignored_before_stays_ignored(quick: Any, name: str) -> None:
    """``nohup rlcore run ...``; ``rlcore run ... &`` of a shell without job control."""
    # One environment: workers for several are advised on standard error, by measured times.
    environment = {"type": "slow", "num_envs": 1, "options": {"seconds": 0.001}}
    place = quick({"environment": environment}, max_steps=2000)
    process = place.start(stdout=PIPE, stderr=PIPE, shell=f"trap '' {name}; exec \"$@\"")
    place.wait_for_checkpoint(process)
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert process.communicate(timeout=20)[1] == ""
    assert process.returncode == 0
    place.assert_done(2000)


@pytest.mark.parametrize("close_seconds", [0.0, 600.0])
def test_ctrl_c_ends_an_evaluation_of_a_run_that_is_over(quick: Any, close_seconds: float) -> None:
    place = quick()
    assert place.finish()[0] == 0
    process = place.popen(
        "evaluate", "--allow-local", str(place.run), "--set", "environment.options.seconds=0.5",
        "--set", f"environment.options.close_seconds={close_seconds}", stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=10)
    assert (process.returncode, output) == (130, "") and ("takes more than 5 s" in errors) == (close_seconds > 0)


# ---------------------------------------------------------------- what is left over


@pytest.mark.parametrize(
    ("options", "code", "last"),
    [
        ({}, 0, "done: 400 steps; Agent mean reward"),
        (
            {"fault": "raise in step", "at": 100},
            3,
            "error: environment 'slow' of plugin 'slow_plugin' (local) failed in step: ZeroDivisionError",
        ),
    ],
)
def test_a_close_that_hangs_does_not_keep_a_run_that_is_over(
    quick: Any, options: dict[str, Any], code: int, last: str
) -> None:
    place = quick({"environment": {"type": "slow", "num_envs": 2, "options": {"close_seconds": 600.0, **options}}})
    started = time.monotonic()
    answered, output, errors = place.finish()
    assert answered == code and time.monotonic() - started < 20
    environment = "environment 'slow' of plugin 'slow_plugin' (local)"
    assert f"warning: closing {environment} takes more than 5 s; the process ends without it\n" in errors
    assert (output if code == 0 else errors).splitlines()[-1].startswith(last)
    assert place.result["outcome"] == ("done" if code == 0 else "failed")
    quick({"environment": {"type": "slow", "num_envs": 2}}).assert_resumes()  # the lock is free


@pytest.mark.parametrize("fault", ["", "raise in step"])
def test_a_thread_that_is_left_over_does_not_keep_the_process(quick: Any, fault: str) -> None:
    options = {"thread_seconds": 600.0, "fault": fault, "at": 100}
    place = quick({"environment": {"type": "slow", "num_envs": 2, "options": options}})
    code, _, errors = place.finish()
    assert code == (3 if fault else 0)
    assert errors.splitlines()[-1] == (
        "warning: thread 'renderer' is left over 3 s after the end; the process ends without it"
    )
