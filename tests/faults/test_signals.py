"""Signals of batch systems: they save a checkpoint and end the run, or save one and let it continue, as a key says."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

pytestmark = pytest.mark.faults

PIPE = subprocess.PIPE
ENDLESS = 10_000_000


def wait_for(condition: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGXCPU"])
def test_a_signal_of_a_batch_system_saves_a_checkpoint_and_ends_the_run(quick: Any, name: str) -> None:
    number = getattr(signal, name)
    place = quick(max_steps=ENDLESS, checkpoint_interval=ENDLESS)
    process = place.start(stdout=PIPE, stderr=PIPE)
    wait_for((place.run / "metrics.jsonl").exists)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number, errors
    assert place.result["outcome"] == "interrupted"
    assert place.result["stop"] == {"reason": name, "exit_code": 128 + number}
    place.assert_resumes()


def test_the_limit_of_processor_time_saves_a_checkpoint(quick: Any) -> None:
    """The system sends SIGXCPU each second from the limit on, until the hard limit."""
    fast = {"environment": {"type": "slow", "num_envs": 2, "options": {"seconds": 0.0}}}
    place = quick(fast, max_steps=ENDLESS, checkpoint_interval=ENDLESS, summary_freq=5000)
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (3, 60))  # noqa: E731
    process = place.start(stdout=PIPE, stderr=PIPE, preexec_fn=limit)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGXCPU, errors
    assert place.result["stop"]["reason"] == "SIGXCPU"
    place.assert_resumes()


def test_a_signal_that_only_saves_lets_the_run_continue(quick: Any) -> None:
    settings = {"run_id": "run", "save_signals": ["SIGUSR1"], "stop_signals": ["SIGUSR1", "SIGALRM"]}
    place = quick({"checkpoint_settings": settings}, max_steps=ENDLESS, checkpoint_interval=ENDLESS, keep_checkpoints=0)
    process = place.start(stdout=PIPE, stderr=PIPE)
    wait_for((place.run / "metrics.jsonl").exists)
    for count in (1, 2, 3):
        process.send_signal(signal.SIGUSR1)
        wait_for(lambda count=count: len(place.steps) == count)
    assert process.poll() is None
    process.send_signal(signal.SIGALRM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGALRM, errors
    assert len(place.steps) == 4
    place.assert_resumes()


def test_a_signal_that_only_saves_does_so_within_an_evaluation_which_is_played_again(quick: Any) -> None:
    evaluation = {"interval": 50, "episodes": 20, "environment": {"num_envs": 1, "options": {"seconds": 0.02}}}
    settings = {"run_id": "run", "save_signals": ["SIGUSR1"]}
    changes = {"evaluation": evaluation, "checkpoint_settings": settings}
    place = quick(changes, max_steps=100, checkpoint_interval=1000, keep_checkpoints=0)
    process = place.start(stdout=PIPE, stderr=PIPE)
    wait_for((place.run / "configuration.yaml").exists)
    time.sleep(1.5)
    process.send_signal(signal.SIGUSR1)
    wait_for(lambda: place.steps == [50])
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    ours = place.result["evaluation"]
    assert place.finish("--force")[0] == 0
    assert ours == place.result["evaluation"]


def test_a_signal_that_no_key_names_ends_the_process_as_ever(quick: Any) -> None:
    place = quick({"checkpoint_settings": {"run_id": "run", "stop_signals": []}}, max_steps=ENDLESS)
    process = place.start(stdout=PIPE, stderr=PIPE)
    place.wait_for_checkpoint(process)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(120) == -signal.SIGUSR1


def test_sigterm_that_was_ignored_before_is_named_at_the_start(quick: Any) -> None:
    """As in a process that submitit starts: its SIGUSR2 saves a checkpoint."""
    place = quick(max_steps=ENDLESS)
    process = place.start(stdout=PIPE, stderr=PIPE, shell="trap '' TERM; exec \"$@\"")
    place.wait_for_checkpoint(process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGUSR2)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGUSR2
    lines = [line for line in errors.splitlines() if "SIGTERM has no effect" in line]
    assert lines == [
        "warning: SIGTERM has no effect, because the process that started this one ignores it, as submitit does; "
        "signals of checkpoint_settings.stop_signals save and end the run: SIGUSR1, SIGUSR2, SIGXCPU"
    ]
    place.assert_resumes()


def test_the_same_command_starts_is_stopped_continues_and_ends(quick: Any) -> None:
    """A batch system repeats the same command. The lock of a process that still saves is waited for."""
    place = quick({"checkpoint_settings": {"run_id": "run", "resume": "auto"}}, max_steps=1200, checkpoint_interval=300)
    codes = []
    for _ in range(4):
        process = place.start(stdout=PIPE, stderr=PIPE)
        wait_for((place.run / "metrics.jsonl").exists)
        size = (place.run / "metrics.jsonl").stat().st_size
        wait_for(
            lambda size=size, process=process: (
                (place.run / "metrics.jsonl").stat().st_size > size + 400 or process.poll() is not None
            )
        )
        process.send_signal(signal.SIGUSR1)
        process.communicate(timeout=120)
        codes.append(process.returncode)
    assert codes[0] == 128 + signal.SIGUSR1
    code, output, errors = place.finish()
    assert code == 0, errors
    place.assert_done(1200)
    before = place.result
    code, output, _ = place.finish()
    assert code == 0 and "nothing left to learn" in output and place.result == before


def test_a_signal_while_it_waits_for_the_lock_ends_the_wait(quick: Any) -> None:
    place = quick({"checkpoint_settings": {"run_id": "run", "resume": "auto"}}, max_steps=ENDLESS)
    first = place.start(stdout=PIPE, stderr=PIPE)
    place.wait_for_checkpoint(first)
    second = place.start(stdout=PIPE, stderr=PIPE)
    for line in second.stderr:
        if "waits up to 120 s" in line:
            assert f"process {first.pid} on " in line
            break
    second.send_signal(signal.SIGTERM)
    _, errors = second.communicate(timeout=120)
    assert second.returncode == 143 and "interrupted before the first step: SIGTERM" in errors
    first.send_signal(signal.SIGTERM)
    assert first.wait(120) == 143


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM])
def test_workers_leave_the_signals_of_a_batch_system_to_the_run(tmp_path: Any, number: int) -> None:
    """Some batch systems send them to every process of a job."""
    config = tmp_path / "run.yaml"
    config.write_text(
        "environment: {type: gymnasium, id: CartPole-v1, num_envs: 2, workers: 2}\n"
        "env_settings: {seed: 1}\n"
        "behaviors: {CartPole: {trainer_type: ppo, max_steps: 10000000, summary_freq: 500, keep_checkpoints: 0}}\n"
        "checkpoint_settings: {run_id: run, stop_signals: [SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM]}\n"
    )
    words = [sys.executable, "-m", "rlcore", "run", str(config)]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True)
    metrics = tmp_path / "results" / "run" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size, 120.0)
    family = descendants(process.pid)
    assert len(family) >= 4  # two guards and two workers
    for member in family:
        os.kill(member, number)
    time.sleep(1.0)
    assert process.poll() is None and set(descendants(process.pid)) == set(family)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number, errors
    assert "worker" not in errors and "Traceback" not in errors and "most recent call" not in errors
    assert not any(os.path.exists(f"/proc/{member}") for member in family)


def descendants(process: int) -> list[int]:
    """The processes that a process started, and those that they started; Linux."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]
