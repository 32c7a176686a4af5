"""Players, games and workers that end or fail in a training: what was learned is saved, exported and resumed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from godot_worlds import PLAYER
from unity_player import make_player

from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

REACH = """\
behaviors:
  Reach:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 64}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 400
    summary_freq: 200
env_settings: {seed: 7, timeout_wait: 60, max_lifetime_restarts: 0}
checkpoint_settings: {run_id: x}
"""
GODOT = f"""\
environment: {{type: godot, executable: {PLAYER}, args: [--form=old, ARGS]}}
behaviors:
  walker: {{trainer_type: ppo, hyperparameters: {{batch_size: 16, buffer_size: 32}}, max_steps: 200}}
env_settings: {{seed: 7, max_lifetime_restarts: 0}}
checkpoint_settings: {{run_id: x}}
"""
WORKERS = """\
preset: none
environment: {type: gymnasium, id: "ends:Ends-v0", num_envs: 2, workers: 2}
behaviors:
  A: {trainer_type: ppo, hyperparameters: {batch_size: 16, buffer_size: 32}, max_steps: 200}
env_settings: {seed: 7, max_lifetime_restarts: 0}
checkpoint_settings: {run_id: x}
"""
ENDS = """
import os
import gymnasium
from rlcore import EnvironmentEnded

class Ends(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)
    taken = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype("float32"), {}

    def step(self, action):
        self.taken += 1
        if self.taken == 60:
            if os.environ["FAULT"] == "ends":
                raise EnvironmentEnded("the window was closed")
            if os.environ["FAULT"] == "dies":
                os._exit(7)
        return self.reset()[0], 1.0, self.taken % 20 == 0, False, {}

gymnasium.register("Ends-v0", Ends)
"""


Ended = Callable[..., str]


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """The directory in which the commands are started."""
    place = tmp_path / "working"
    place.mkdir()
    return place


@pytest.fixture
def ended(where: Path, run_rlcore: RunRlcore) -> Ended:
    """``ended("run.yaml", code=3)``: the output of ``rlcore run``, which ends with that code."""

    def run(*words: str, code: int) -> str:
        result = run_rlcore("run", *words)
        text = result.stdout + result.stderr
        assert result.exit_code == code, text
        return text

    return run


@contextmanager
def running(where: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command line as a process, of which nothing is left afterwards."""
    command = [sys.executable, "-m", "rlcore", "run", *words]
    with subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def outcome(where: Path) -> str:
    return str(json.loads((where / "results/x/result.json").read_text())["outcome"])


def checkpoints(where: Path) -> list[int]:
    return sorted(int(each.name) for each in (where / "results/x/checkpoints").iterdir() if each.name.isdigit())


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("quits@40", 0, "environment ended (the player ./Reach.x86_64 ended the session)"),
        pytest.param(
            "leaves@40",
            0,
            "environment ended (the player ./Reach.x86_64 was closed in a step)",
            marks=pytest.mark.faults,
        ),
        ("crashes@40", 3, "failed: "),
    ],
)
def test_a_player_that_is_closed_or_crashes_leaves_a_checkpoint_and_a_model(
    fault: str, code: int, said: str, where: Path, ended: Ended
) -> None:
    """Before the first checkpoint that is due."""
    (where / "Reach.yaml").write_text(REACH)
    make_player(where, "Reach.x86_64", world="continuous", agents=3, behavior="Reach", fault=fault)
    text = ended("Reach.yaml", "--env", "./Reach.x86_64", code=code)
    assert said in text and "; resume with: rlcore run --resume --run-id x" in text
    assert ("was killed by SIGABRT" in text) == (code == 3)
    assert outcome(where) == ("failed" if code else "environment ended")
    (step,) = checkpoints(where)
    assert 60 < step < 150 and (where / "results/x/Reach.onnx").is_file()
    make_player(where, "Reach.x86_64", world="continuous", agents=3, behavior="Reach")
    text = ended("--resume", "--run-id", "x", code=0)
    assert f"resumed at step {step}" in text and "done: " in text


@pytest.mark.parametrize(("fault", "code"), [("leave", 0), ("exit", 3)])
def test_a_game_of_godot_that_is_closed_or_fails_loses_nothing(
    fault: str, code: int, where: Path, ended: Ended
) -> None:
    path = where / "walk.yaml"
    path.write_text(GODOT.replace("ARGS", f"--fault={fault}, --at=30"))
    ended("walk.yaml", code=code)
    assert checkpoints(where) == [29 * 3]
    assert outcome(where) == ("failed" if code else "environment ended")
    path.write_text(GODOT.replace("ARGS", "--at=1"))
    assert "done: " in ended("walk.yaml", "--resume", code=0)


@pytest.mark.parametrize(("fault", "code"), [("ends", 0), pytest.param("dies", 3, marks=pytest.mark.faults)])
def test_an_environment_in_a_worker_that_ends_or_fails_loses_nothing(
    fault: str, code: int, where: Path, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    (where / "ends.py").write_text(ENDS)
    (where / "ends.yaml").write_text(WORKERS)
    monkeypatch.setenv("FAULT", fault)
    text = ended("ends.yaml", code=code)
    assert checkpoints(where) == [59 * 2]
    assert outcome(where) == ("failed" if code else "environment ended")
    assert ("environment ended (" in text) == (code == 0)
    monkeypatch.setenv("FAULT", "none")
    assert "done: " in ended("ends.yaml", "--resume", code=0)


def editor_run(where: Path) -> list[str]:
    """The words of a run that waits for the editor at a free port, the last word."""
    (where / "Reach.yaml").write_text(REACH)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return ["Reach.yaml", "--env", "editor", "--base-port", str(free.getsockname()[1])]


def read_until(run: subprocess.Popen[str], wanted: str) -> str:
    assert run.stdout is not None
    text = ""
    while wanted not in text:
        line = run.stdout.readline()
        assert line, text
        text += line
    return text


@pytest.mark.faults
def test_play_that_is_stopped_in_the_editor_ends_the_run_with_what_it_learned(where: Path) -> None:
    words = editor_run(where)
    player = make_player(where, world="continuous", agents=3, behavior="Reach", delay=0.02)
    with running(where, *words, "--set", "behaviors.Reach.max_steps=1e9") as run:
        read_until(run, "press Play in the editor")
        with subprocess.Popen([player, "--mlagents-port", words[-1]], stdout=subprocess.DEVNULL) as game:
            read_until(run, "Step: 200.")
            game.kill()
        text = run.communicate(timeout=60)[0]
    assert (run.returncode, outcome(where)) == (0, "environment ended"), text
    assert "environment ended (the game in the editor was stopped)" in text
    assert checkpoints(where) and (where / "results/x/Reach.onnx").is_file()


HEARD = 8.0  # seconds, of a busy machine; without being heard, Ctrl-C waits for 60


def test_ctrl_c_is_heard_while_the_editor_is_waited_for(where: Path) -> None:
    with running(where, *editor_run(where)) as run:
        read_until(run, "press Play in the editor")
        started = time.monotonic()
        run.send_signal(signal.SIGINT)
        text = run.communicate(timeout=60)[0]
    assert time.monotonic() - started < HEARD
    assert run.returncode == 130 and "interrupted before the first step: SIGINT" in text, text


@pytest.mark.long
@pytest.mark.parametrize("kind", ["unity", pytest.param("godot", marks=pytest.mark.faults)])
def test_ctrl_c_is_heard_while_a_player_hangs_and_loses_nothing(kind: str, where: Path) -> None:
    if kind == "unity":
        make_player(where, "Reach.x86_64", world="continuous", agents=3, behavior="Reach", fault="hangs@40")
        (where / "run.yaml").write_text(REACH)
        words = ["run.yaml", "--env", "./Reach.x86_64"]
    else:
        (where / "run.yaml").write_text(GODOT.replace("ARGS", "--fault=hang, --at=30"))
        words = ["run.yaml"]
    with running(where, *words) as run:
        read_until(run, "resume ")
        time.sleep(4.0)  # the player hangs by now
        started = time.monotonic()
        run.send_signal(signal.SIGINT)
        text = run.communicate(timeout=60)[0]
    assert time.monotonic() - started < HEARD
    assert (run.returncode, outcome(where)) == (130, "interrupted"), text
    (step,) = checkpoints(where)
    assert step > 60 and "interrupted: " in text
    assert not [each for each in psutil.process_iter(["environ"]) if str(where) in str(each.info["environ"] or "")
                and each.pid != os.getpid()]  # fmt: skip


def test_a_player_has_time_to_close_its_files(where: Path, ended: Ended) -> None:
    """More than the two seconds that one has which does not answer, and than the five of other environments."""
    (where / "Reach.yaml").write_text(REACH.replace("400", "60"))
    make_player(where, "Reach.x86_64", world="continuous", agents=3, behavior="Reach", fault="lingers")
    text = ended("Reach.yaml", "--env", "./Reach.x86_64", code=0)
    assert "takes more than" not in text
    assert "closed its files" in (where / "results/x/run_logs/Player-0.log").read_text()
