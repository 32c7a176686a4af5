"""Workers that are killed, hang, crash and raise: only their own open episodes are lost.

The environments are those of ``faulty_environment.py``: what an agent sees is a function of environment, episode and
step, so that every row of every batch is checked.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checked_workers import FAULTY, SEED, Checked, descriptors, fault, left_processes, make
from ray_jobs import begin

from rlcore import Actions, EnvironmentFailed, EpisodeSeeds, PluginError
from rlcore_devkit.fixtures import RunRlcore

pytestmark = pytest.mark.faults


def held() -> tuple[int, int, int]:
    """Descriptors, threads and shared memory of this process, without what garbage of other tests holds."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().count("memfd:rlcore")
    return descriptors(), len(os.listdir("/proc/self/task")), maps


def test_only_the_open_episodes_of_a_failing_worker_are_lost(tmp_path: Path, opened: list[Any]) -> None:
    """One worker for each kind of fault, two of them in the same step."""
    kinds = ("raise", "segfault", "hang", "nan", "stop", "exit", "kill", "unpicklable")
    faults = [fault(kind, 2 * part, 0, min(1 + part // 2, 4)) for part, kind in enumerate(kinds)]
    settings = {"count": len(kinds), "step_timeout": 3.0}
    opened.append(make(tmp_path, settings, 2 * len(kinds), faults))
    checked = Checked(opened[-1])
    before = held()
    assert before[2] == 1
    checked.play(14)
    envs = range(2 * len(kinds))
    assert checked.aborts == [tuple(envs[start : start + 4]) for start in envs[::4]]
    assert held() == before, "a restart leaves nothing"
    stats = opened[-1].stats()
    assert stats["Environment/Worker Restarts"] == len(kinds)
    assert stats["Environment/Aborted Episodes"] == 2 * len(kinds)
    opened.pop().close()
    assert left_processes() == []


def test_an_episode_that_fails_when_it_starts_is_left_out(tmp_path: Path, opened: list[Any]) -> None:
    faults = [fault("raise", 1, 0, 0), fault("raise", 3, 1, 0)]
    opened.append(make(tmp_path, 2, 4, faults))
    checked = Checked(opened[-1])
    assert checked.episode.tolist() == [1, 1, 0, 0]
    checked.play(15)
    assert checked.aborts == [(2, 3)]


def test_a_worker_that_fails_too_often_ends_the_run_with_its_error(tmp_path: Path, opened: list[Any]) -> None:
    faults = [fault("raise", 0, episode, 1) for episode in range(4)]
    limits = {"restarts_rate_limit_n": 2, "restarts_rate_limit_period_s": 600}
    opened.append(make(tmp_path, 2, 4, faults, limits))
    with pytest.raises(EnvironmentFailed) as failed:
        Checked(opened[-1]).play(20)
    text = str(failed.value)
    assert "worker 0 (environments 0 to 1) failed in step: ValueError: the pole is broken" in text
    assert "env_settings.restarts_rate_limit_n allows 2 within 600 s" in text
    assert "faulty_environment.py" in str(failed.value.__cause__)
    assert opened[-1].stats()["Environment/Worker Restarts"] == 2


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("segfault", r"its process was killed by SIGSEGV .*Fatal Python error: Segmentation fault"),
        ("kill", "its process was killed by SIGKILL"),
        ("hang", "did not finish step within 3 s"),
        ("exit", "its process ended with exit code 3"),
        ("unpicklable", "final_info .* is a "),
        ("nan", r"'state' of slot 0 \(environment 2\) is \[ *2. +0. +1. +nan\] in its worker; fix"),
    ],
)
def test_policy_fail_ends_the_run_at_the_first_failure(
    tmp_path: Path, opened: list[Any], kind: str, message: str
) -> None:
    settings = {"count": 2, "on_failure": "fail", "step_timeout": 3.0}
    opened.append(make(tmp_path, settings, 4, [fault(kind, 2, 0, 1)]))
    with pytest.raises(EnvironmentFailed, match=rf"worker 1 .*{message}") as failed:
        Checked(opened[-1]).play(3)
    assert kind != "hang" or "faulty_environment.py" in str(failed.value.__cause__), "where it is"


def test_policy_drop_continues_without_a_worker(tmp_path: Path, opened: list[Any]) -> None:
    limits = {"max_lifetime_restarts": 0}
    opened.append(make(tmp_path, {"count": 2, "on_failure": "drop"}, 4, [fault("exit", 0, 0, 2)], limits))
    environment = opened[-1]
    environment.reset(EpisodeSeeds(SEED), np.zeros(4, np.int64))
    actions = {"A": Actions(None, np.ones((4, 1), np.int64))}
    assert environment.step(actions)["A"].needs_action is None
    batch = environment.step(actions)["A"]
    assert batch.aborted is not None and batch.aborted.tolist() == [True, True, False, False]
    for _ in range(12):
        batch = environment.step(actions)["A"]
        assert batch.needs_action is not None and batch.needs_action.tolist() == [False, False, True, True]
        assert not batch.terminated[:2].any() and not batch.reward[:2].any()
    batch = environment.reset(EpisodeSeeds(SEED), np.full(4, 7))["A"]
    assert batch.observations["state"][2:, 1].tolist() == [7, 7]


def test_a_worker_that_cannot_make_its_environments_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "once").touch()
    with pytest.raises(PluginError, match=r"environment 'faulty' .* OSError: no license for the simulator"):
        make(tmp_path, 2, 4, fail_create_if=str(tmp_path / "once"), create_env=2)
    assert left_processes() == []


CONFIG = """
plugins: {{local: [{plugin!r}]}}
environment:
  type: faulty
  num_envs: 4
  workers: 2
  options: {{faults: [{{kind: kill, env: 2, episode: 1, step: 3}}], pause: 0.001}}
env_settings: {{seed: 3}}
behaviors:
  A:
    trainer_type: ppo
    hyperparameters: {{batch_size: 32, buffer_size: 128}}
    network_settings: {{hidden_units: 8, num_layers: 1}}
    max_steps: 10000000
    summary_freq: 200
checkpoint_settings: {{run_id: run, results_dir: {results!r}}}
"""


def test_a_run_learns_on_after_a_failure_and_ctrl_c_saves_it(tmp_path: Path, run_rlcore: RunRlcore) -> None:
    """Ctrl-C reaches every process of the terminal: the workers ignore it, and the run saves and ends them."""
    text = CONFIG.format(plugin=str(FAULTY), results=str(tmp_path))
    (tmp_path / "config.yaml").write_text(text)
    run = begin(tmp_path, "run", "config.yaml")
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not metrics.exists() or '"Environment/Aborted Episodes"' not in metrics.read_text():
        assert time.monotonic() < deadline and run.poll() is None, run.communicate(timeout=60)
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    text, _ = run.communicate(timeout=120)
    assert run.returncode == 130, text
    last = json.loads(metrics.read_text().splitlines()[-1])["stats"]
    assert (last["Environment/Worker Restarts"], last["Environment/Aborted Episodes"]) == (1, 2)
    assert "worker 1 (environments 2 to 3) failed in step: its process was killed by SIGKILL" in text
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["outcome"] == "interrupted"
    shown = run_rlcore("status", str(tmp_path / "run"), "--allow-local")
    assert "workers: 1 started again, 2 aborted episodes, since the run was last started" in shown.stdout
    saved = [int(each.name) for each in (tmp_path / "run" / "checkpoints").iterdir()]
    assert saved == [result["behaviors"]["A"]["steps"]]
